"""A client that is nothing but its state machine: no socket, no clock, no code that runs."""

from base64 import b64decode
from collections import Counter, deque
from typing import Any, cast

import msgspec

from handspan.client.actions import (
    Action,
    AskPerson,
    DeliverEvent,
    DeliverFrame,
    RunCall,
    SaveState,
    SendFrame,
    ShrinkAnswer,
    StartLogin,
    StopAsking,
    StopCall,
)
from handspan.client.calls import login_answer
from handspan.client.chat_state import ChatState
from handspan.client.client_state import ClientState
from handspan.client.connection import CAPABILITIES
from handspan.client.errors import LoginRequired
from handspan.client.memory import CallMemory
from handspan.client.results import Image, ResultEncoder
from handspan.client.tools import ClientTools
from handspan.core.calls import new_call_id
from handspan.core.errors import ToolError
from handspan.core.events import QuestionAsked
from handspan.core.questions import Question
from handspan.wire.ws import decode_server, encode
from handspan.wire.ws_chat_frames import AnswerFrame, ChannelMessage, Say
from handspan.wire.ws_frames import CallRequest, Connect, Decision, FailureFrame, ResultFrame
from tests.vectors.cases import Case

NOW = 1_700_000_000.0


def value_of(returned: Any) -> Any:
    """What the code of a tool returns, by the words of a case."""
    match returned:
        case {"$image": str(data), "media_type": str(media_type)}:
            return Image(b64decode(data), media_type)
    return returned


def fields_of(message: ChannelMessage) -> dict[str, str]:
    """A message of an agent as a case has it."""
    return {"channel": message.channel, "chat_id": message.chat_id, "content": message.content}


def nothing(arguments: Any) -> None:
    """The code of a tool that nobody calls."""
    raise AssertionError("the state machine calls no code")


async def no_upload(data: bytes, media_type: str, name: str) -> str:
    """For results that fit into a frame."""
    raise AssertionError("nothing here is so large")


class PureClient:
    """The state machine, and what it wants done."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._tools = ClientTools()
        for tool in case.tools:
            offer = {key: value for key, value in tool.items() if key != "code"}
            self._tools.register(offer, nothing if tool.get("code", True) else None)
        self._file: bytes | None = None
        self._counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        memory = CallMemory() if self._file is None else CallMemory.decode(self._file, NOW)
        given = self._case.client
        is_chat = given.get("role") == "chat"
        chat_can = ("events", "questions", "question_kinds") if is_chat else ("login",)
        can: list[str] = [*CAPABILITIES, *chat_can, *(("messages",) if given.get("messages") else ())]
        self._shown: list[Any] = []
        hello = Connect(
            device_name="test", capabilities=can, role="chat" if is_chat else "device", label=given.get("label")
        )
        self._peer = ClientState(
            hello, self._tools, memory, given.get("concurrency", 1), ChatState() if is_chat else None
        )
        self._events: list[Any] = []
        self._sent: deque[dict[str, Any]] = deque()
        self._running: dict[str, str] = {}
        self._stopped: set[str] = set()
        self._asking: dict[str, str | RunCall] = {}
        self._large: list[ResultFrame] = []
        self._questions: dict[str, Question] = {}
        self._logins: dict[str, str] = {}
        self._requests: dict[str, CallRequest] = {}

    async def up(self) -> None:
        """The link is there."""
        self._do(self._peer.open_link())

    async def drop(self) -> None:
        """It is gone, and with it what nobody has read."""
        self._sent.clear()
        self._do(self._peer.drop_link([]))

    async def say(self, frame: dict[str, Any]) -> None:
        """The gateway says this."""
        read = decode_server(msgspec.json.encode(frame))
        if read is not None:
            self._do(self._peer.receive(read, NOW))
            while self._large:
                self._do(self._peer.calls.replace_answer(await self._fitting(self._large.pop(0)), NOW))

    async def sent(self) -> dict[str, Any]:
        """The next frame."""
        assert self._sent, "nothing was sent"
        return self._sent.popleft()

    async def nothing_more(self) -> list[dict[str, Any]]:
        """Everything is done at once here."""
        return list(self._sent)

    async def end(self, call_id: str, how: dict[str, Any]) -> None:
        """The code of a call does this."""
        assert call_id in self._running, f"{call_id} does not run"
        match how:
            case {"returns": value}:
                self._finish(call_id, await self._answer(call_id, value_of(value)))
            case {"raises": str(text)}:
                self._finish(call_id, self._failure(call_id, text, how))
            case {"progress": value}:
                self._do(self._peer.calls.report_progress(call_id, value))
            case {"stopped": True}:
                assert call_id in self._stopped, f"{call_id} was not told to stop"
                self._finish(call_id, None)

    async def decide(self, permission: str, decision: str, how_to_enable: str) -> None:
        """The person says this."""
        asked = self._asking.pop(permission)
        if isinstance(asked, str):
            self._do(self._peer.calls.answer_permission(asked, cast(Decision, decision), how_to_enable))
        elif decision == "allow":
            self._run(asked)
        else:
            self._running[asked.request.id] = asked.request.name
            text = f"Permission {permission!r} was denied by the user"
            self._finish(asked.request.id, FailureFrame(id=asked.request.id, error=text, code="permission_denied"))

    async def answer(self, question_id: str, said: dict[str, Any]) -> None:
        """The person answers."""
        del self._questions[question_id]
        self._do(self._peer.send(msgspec.convert({"id": question_id, "type": "answer", **said}, AnswerFrame)))

    async def login_begun(self, call_id: str) -> str:
        """The intent of the login that is to be begun."""
        return self._logins.pop(call_id)

    def _failure(self, call_id: str, text: str, how: dict[str, Any]) -> FailureFrame:
        code, request = how.get("code", ""), self._requests[call_id]
        if code == "auth_required":
            error = LoginRequired(text, hint=how.get("hint", ""), intent=how.get("intent", ""))
            return login_answer(request, error, self._peer.link.capabilities)
        return FailureFrame(id=call_id, error=text, code=code)

    async def restart(self) -> None:
        """It is killed and started again."""
        if not self._case.client.get("state"):
            self._file = None
        self._begin()

    async def unregister(self, name: str) -> None:
        """The program takes a tool back."""
        self._tools.unregister(name)
        self._do(self._peer.change_tool(name))

    def runs(self, tool: str) -> int:
        """How often its code was begun."""
        return self._counts[tool]

    async def speak(self, text: str) -> None:
        """The program says this."""
        self._do(self._peer.send(Say(text, id=new_call_id())))

    async def heard(self, count: int) -> list[Any]:
        """The events of what it said."""
        return self._events

    async def shown(self, count: int) -> list[Any]:
        """The messages of agents."""
        return self._shown

    async def _answer(self, call_id: str, value: Any) -> ResultFrame | FailureFrame:
        try:
            return await ResultEncoder(no_upload).encode(
                call_id, value, self._peer.link.capabilities, self._peer.link.limits
            )
        except ToolError as error:
            return FailureFrame(id=call_id, error=error.message, code=error.code)

    async def _fitting(self, answer: ResultFrame) -> ResultFrame | FailureFrame:
        try:
            return await ResultEncoder(no_upload).shrink(answer, self._peer.link.capabilities, self._peer.link.limits)
        except ToolError as error:
            return FailureFrame(id=answer.call, error=error.message, code=error.code)

    def _finish(self, call_id: str, answer: Any) -> None:
        del self._running[call_id]
        self._do(self._peer.calls.finish_call(call_id, answer, NOW))

    def _run(self, run: RunCall) -> None:
        if run.is_recorded:
            self._file = self._peer.memory.encode()
        self._running[run.request.id] = run.request.name
        self._requests[run.request.id] = run.request
        self._counts[run.request.name] += 1

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SendFrame(frame=frame):
                    self._sent.append(msgspec.json.decode(encode(frame)))
                case SaveState():
                    self._file = self._peer.memory.encode()
                case ShrinkAnswer(answer=answer):
                    self._large.append(answer)
                case RunCall(asks_person=True, request=request):
                    tool = self._tools.find(request.name)
                    assert tool is not None
                    self._asking[tool.spec.permissions[0]] = action
                case RunCall():
                    self._run(action)
                case StopCall(call_id=call_id):
                    self._stopped.add(call_id)
                case DeliverEvent(event=event, is_own=is_own):
                    if isinstance(event, QuestionAsked):
                        assert event.question.id not in self._questions, "it was asked before"
                        self._questions[event.question.id] = event.question
                    if is_own:
                        self._events.append(msgspec.to_builtins(event))
                case DeliverFrame(frame=ChannelMessage() as message):
                    if self._case.client.get("messages"):
                        self._shown.append(fields_of(message))
                case StartLogin(request=login, refused=refused):
                    self._logins[login.call_id] = "" if refused is None else refused.authorize_intent
                case StopAsking(question_id=question_id):
                    self._asking = {one: asked for one, asked in self._asking.items() if asked != question_id}
                case AskPerson(request=asked):
                    self._asking[asked.permission] = asked.id
