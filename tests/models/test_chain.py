"""Another model answers when one can't: which faults lead to it, and what stays told at once (SPEC L6)."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
from msgspec import UNSET, structs

from handspan.config.settings import ModelSettings
from handspan.core.messages import Api, AssistantMessage, Media, Message, Substitution, Text, UserMessage
from handspan.core.results import Attachment
from handspan.models.chain import FIRST_REST, LONGEST_REST, ModelChain, RestingModels, api_of
from handspan.models.choice import codec_for, target_for
from handspan.models.http import HttpModel, join_url
from handspan.models.model import ModelError, ModelEvent, Replied, Retrying, Substituted, TextDelta
from handspan.models.scripted import Scripted
from handspan.net.guard import NetGuard
from tests.models.conversations import APIS, MODELS, PIXEL, TOOLS, Pauses, answers, user
from tests.models.fake_server import KEY, Call, FakeModelServer, Fault, Turn
from tests.net.site import Site, response

pytestmark = pytest.mark.anyio
TRIES: Final = 4
NEXT: Final[dict[Api, Api]] = dict(zip(APIS, (*APIS[1:], APIS[0]), strict=True))
LONG: Final = "Some words that are long enough for a number of events of a stream, of which the last are lost."


def http_model(address: str, api: Api, name: str, *, key: str = KEY, images: bool = True) -> HttpModel:
    given = ModelSettings(api, address, key, MODELS[api], images=images)
    return HttpModel(
        codec_for(api, MODELS[api], address), NetGuard(), given, target=target_for(api), name=name, pause=Pauses()
    )


@asynccontextmanager
async def two_models(
    api: Api, first: Sequence[Turn], second: Sequence[Turn]
) -> AsyncIterator[tuple[ModelChain, FakeModelServer, FakeModelServer]]:
    """A list of a model of this API and one of the next API, each with a server of its own."""
    other = NEXT[api]
    async with FakeModelServer(first) as one, FakeModelServer(second) as two:
        models = [http_model(one.url(api), api, "first"), http_model(two.url(other), other, "second")]
        try:
            yield ModelChain(models, RestingModels()), one, two
        finally:
            for model in models:
                await model.close()


async def events_of(chain: ModelChain, *messages: Message) -> list[ModelEvent]:
    projection = chain.projection("Be brief.")
    for message in messages:
        projection.append(message)
    return [event async for event in chain.reply(projection, TOOLS)]


def reply_in(events: Sequence[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, Replied)
    return last.message


@pytest.mark.parametrize("api", APIS)
class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "retry_after", "words"),
        [
            ("rate_limited", "", ""),
            ("rate_limited", "30", "asks to wait 30 s"),
            ("rate_limited", "100000", "asks to wait 100000 s"),
            ("quota", "", ""),
            ("server_error", "", ""),
            ("overloaded", "", ""),
            ("unknown_model", "", ""),
            ("error_event", "", ""),
            ("reset", "", ""),
            ("html", "", "text/html"),
        ],
    )
    async def test_another_model_answers_when_the_first_can_not(
        self, api: Api, fault: Fault, retry_after: str, words: str
    ) -> None:
        failing = [Turn(fault=fault, retry_after=retry_after)] * TRIES
        async with two_models(api, failing, [Turn(text="Here I am.")]) as (chain, _, second):
            events = await events_of(chain, user("Hello"))
        assert reply_in(events).text == "Here I am."
        switched = next(event for event in events if isinstance(event, Substituted))
        assert (switched.substitution.by, switched.substitution.of) == ("second", "first")
        assert switched.is_new and switched.substitution.reason
        assert words in switched.substitution.reason
        assert reply_in(events).substitution == switched.substitution
        assert len(second.asked) == 1

    async def test_another_model_answers_when_no_server_can_be_reached(self, api: Api) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
            chain = ModelChain([http_model(address, api, "first"), Scripted(["Hi."], name="second")], RestingModels())
            events = await events_of(chain, user("Hello"))
        assert reply_in(events).text == "Hi."
        assert sum(isinstance(event, Retrying) for event in events) == TRIES - 1

    async def test_an_answer_that_is_cut_before_its_first_word_comes_from_another_model(self, api: Api) -> None:
        path = join_url("", codec_for(api).path(MODELS[api], stream=True)).partition("?")[0]
        async with Site({path: response(b"", headers={"Content-Type": "text/event-stream"})}) as site:
            first = http_model(site.url(""), api, "first")
            events = await events_of(ModelChain([first, Scripted(["Hi."], name="second")], RestingModels()), user("?"))
            await first.close()
        assert reply_in(events).text == "Hi."
        assert "broke off" in next(one for one in events if isinstance(one, Substituted)).substitution.reason

    @pytest.mark.parametrize("fault", ["cut", "cut_clean"])
    async def test_an_answer_that_is_cut_after_its_first_word_is_told(self, api: Api, fault: Fault) -> None:
        arrived: list[ModelEvent] = []
        async with two_models(api, [Turn(text=LONG, fault=fault)], [Turn(text="never")]) as (chain, _, second):
            projection = chain.projection()
            projection.append(user("Hello"))
            with pytest.raises(ModelError) as cut:
                async for event in chain.reply(projection, TOOLS):
                    arrived.append(event)  # noqa: PERF401 - what came before the error is what counts
        assert cut.value.fault == "cut"
        assert any(isinstance(event, TextDelta) for event in arrived)
        assert second.asked == []

    @pytest.mark.parametrize(("fault", "meant"), [("auth", "auth"), ("too_long", "too_long"), ("redirect", "rejected")])
    async def test_what_another_model_would_only_hide_is_told(self, api: Api, fault: Fault, meant: str) -> None:
        async with two_models(api, [Turn(fault=fault)], [Turn(text="never")]) as (chain, _, second):
            with pytest.raises(ModelError) as told:
                await events_of(chain, user("Hello"))
        assert told.value.fault == meant
        assert second.asked == []

    async def test_a_bad_request_is_told(self, api: Api) -> None:
        async with two_models(api, [], [Turn(text="never")]) as (chain, _, second):
            with pytest.raises(ModelError) as told:  # an empty script answers 400
                await events_of(chain, user("Hello"))
        assert told.value.fault == "rejected"
        assert second.asked == []

    async def test_it_goes_on_with_the_calls_that_the_first_one_began_and_stays_for_the_turn(self, api: Api) -> None:
        first = [Turn(calls=(Call("weather", '{"city":"Rome"}'),)), *[Turn(fault="overloaded")] * TRIES, Turn(text="?")]
        second = [Turn(calls=(Call("camera"),)), Turn(text="Sunny.")]
        async with two_models(api, first, second) as (chain, one, two):
            projection = chain.projection("Be brief.")
            said: Message = structs.replace(user("Weather?"), turn="t1")
            switches: list[Substituted] = []
            for _ in range(3):
                projection.append(said)
                events = [event async for event in chain.reply(projection, TOOLS)]
                switches += [event for event in events if isinstance(event, Substituted)]
                message = reply_in(events)
                projection.append(message)
                said = answers(message) if message.calls else message
        assert isinstance(said, AssistantMessage)
        assert said.text == "Sunny."
        assert [switch.is_new for switch in switches] == [True, False]
        assert len(two.asked) == 2
        assert len(one.asked) == 1 + TRIES


class Told(ModelError):
    """A failure that can be raised again and again."""


def busy(seconds: float | None = None) -> ModelError:
    return Told("overloaded", "Too busy.", wait=seconds)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestTurns:
    async def test_a_new_turn_begins_with_the_first_model_once_its_rest_is_over(self) -> None:
        clock = Clock()
        rests = RestingModels(clock)
        one, two = Scripted([busy(), "One."], name="one"), Scripted(["Two.", "Two again."], name="two")
        chain = ModelChain([one, two], rests)
        assert reply_in(await events_of(chain, user("a"))).text == "Two."
        resting = await events_of(chain, user("b"))
        assert reply_in(resting).text == "Two again."
        assert reply_in(resting).substitution == Substitution("two", "one", "Too busy.")
        assert len(one.requests) == 1, "a model that rests is not asked while another one can answer"
        clock.now += FIRST_REST
        back = await events_of(chain, user("c"))
        assert reply_in(back).text == "One."
        assert reply_in(back).substitution is UNSET
        assert not any(isinstance(event, Substituted) for event in back)

    async def test_a_conversation_that_is_loaded_in_the_middle_of_a_turn_stays_with_its_model(self) -> None:
        one, two = Scripted(["One."], name="one"), Scripted(["Two."], name="two")
        chain = ModelChain([one, two], RestingModels())
        text = AssistantMessage((Text("…"),), substitution=Substitution("two", "one", "Too busy."))
        joined = structs.replace(user("And?"), turn="t1")
        events = await events_of(chain, structs.replace(user("a"), turn="t1"), text, joined)
        assert reply_in(events).text == "Two."
        assert reply_in(events).substitution == Substitution("two", "one", "Too busy.")

    async def test_a_message_of_the_next_turn_is_for_the_first_model_again(self) -> None:
        chain = ModelChain([Scripted(["One."], name="one"), Scripted([], name="two")], RestingModels())
        text = AssistantMessage((Text("…"),), substitution=Substitution("two", "one", "Too busy."))
        following = structs.replace(user("And?"), turn="t2")
        events = await events_of(chain, structs.replace(user("a"), turn="t1"), text, following)
        assert reply_in(events).text == "One."

    async def test_when_all_fail_the_error_names_each(self) -> None:
        failing = [Scripted([ModelError("overloaded", f"{name} is busy.")], name=name) for name in ("a", "b", "c")]
        with pytest.raises(ModelError, match=r"^c is busy\. 'a' had failed before: a is busy\. 'b' had failed"):
            await events_of(ModelChain(failing, RestingModels()), user("Hello"))

    async def test_models_that_rest_are_asked_when_no_other_can_answer(self) -> None:
        rests = RestingModels()
        one, two = Scripted(["One."], name="one"), Scripted([busy()], name="two")
        rests.begin("one", busy())
        events = await events_of(ModelChain([one, two], rests), user("Hello"))
        assert reply_in(events).text == "One."
        assert rests.seconds_left("one") == 0

    async def test_a_wrong_key_of_the_second_model_says_what_came_before(self) -> None:
        one = Scripted([busy()], name="one")
        two = Scripted([ModelError("auth", "The key is wrong.")], name="two")
        with pytest.raises(ModelError, match=r"The key is wrong\. 'one' had failed before: Too busy\.") as told:
            await events_of(ModelChain([one, two], RestingModels()), user("Hello"))
        assert told.value.fault == "auth"

    async def test_a_turn_that_is_cancelled_lets_no_model_rest(self) -> None:
        rests = RestingModels()
        async with FakeModelServer([Turn(fault="hang")]) as server:
            model = http_model(server.url("anthropic"), "anthropic", "first")
            chain = ModelChain([model, Scripted(["never"], name="second")], rests)
            asking = asyncio.create_task(events_of(chain, user("Hello")))
            async with asyncio.timeout(60):
                while not server.asked:  # the server notes the request before it falls silent
                    await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await model.close()
        assert rests.seconds_left("first") == 0


class TestRests:
    def test_each_failure_after_a_rest_doubles_the_next_one_up_to_an_hour(self) -> None:
        clock = Clock()
        rests, seen = RestingModels(clock), []
        for _ in range(9):
            rests.begin("a", busy())
            seen.append(rests.seconds_left("a"))
            clock.now += rests.seconds_left("a")
        assert seen[:4] == [60.0, 120.0, 240.0, 480.0]
        assert seen[-1] == LONGEST_REST

    def test_failures_of_requests_that_ran_together_are_one(self) -> None:
        clock = Clock()
        rests = RestingModels(clock)
        for _ in range(5):
            rests.begin("a", busy())
        assert rests.seconds_left("a") == FIRST_REST

    def test_a_server_that_asks_for_a_longer_rest_gets_it(self) -> None:
        clock = Clock()
        rests = RestingModels(clock)
        rests.begin("a", busy(300.0))
        rests.begin("b", busy(1e9))
        assert (rests.seconds_left("a"), rests.seconds_left("b")) == (300.0, LONGEST_REST)

    def test_an_answer_ends_the_rest_and_its_history(self) -> None:
        rests = RestingModels(Clock())
        rests.begin("a", busy())
        rests.end("a")
        assert (rests.seconds_left("a"), rests.reason("a")) == (0.0, "")
        rests.begin("a", busy())
        assert rests.seconds_left("a") == FIRST_REST


@pytest.mark.parametrize("api", APIS)
async def test_a_model_without_images_gets_a_note_in_place_of_each(api: Api) -> None:
    picture = Attachment("image", "image/png", PIXEL, name="cat.png")
    other = NEXT[api]
    async with (
        FakeModelServer([Turn(fault="overloaded")] * TRIES) as one,
        FakeModelServer([Turn(text="A cat?")]) as two,
    ):
        first = http_model(one.url(api), api, "first")
        second = http_model(two.url(other), other, "second", images=False)
        events = await events_of(
            ModelChain([first, second], RestingModels()), UserMessage((Text("What is it?"), Media(picture)))
        )
        await first.close()
        await second.close()
    assert reply_in(events).text == "A cat?"
    sent = str(two.asked[0].body)
    assert "The image 'cat.png' (image/png" in sent
    assert "this model sees no images" in sent


def test_a_list_of_models_has_the_api_of_its_first_one() -> None:
    address = "http://127.0.0.1:9"
    first, second = http_model(address, "anthropic", "first"), http_model(address, "gemini", "second")
    chain = ModelChain([first, second], RestingModels())
    assert [api_of(model.projection()) for model in (chain, second)] == ["anthropic", "gemini"]
    assert api_of(Scripted([]).projection()) is None
