"""Which skills there are, which may be used, and what an agent is while some are on (SPEC A3, S1)."""

import asyncio
import os
import stat
from pathlib import Path

import msgspec
import pytest

from handspan import tool
from handspan.core.agents import GENERAL, Agent
from handspan.core.calls import ToolCall
from handspan.core.context import ToolContext
from handspan.core.errors import ConfigError, ToolError
from handspan.core.principals import OPERATOR
from handspan.core.results import Failure, Success
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.registry.registry import Registry
from handspan.skills.file import Skill
from handspan.skills.folders import MAX_SKILLS, PlainFolder, SkillReader, WorkspaceFolder, skill_folders
from handspan.skills.skills import ListedSkill, Skills, build_instructions, tools_of_skills
from handspan.skills.use_skill import UseSkill
from handspan.store.switches import file_skill_switches
from tests.memory_ledger import MemoryLedger
from tests.skills.control_tokens import has_control_token
from tests.stores import open_artifacts


class SkillSetup:
    """A workspace, a configuration and a state folder, and the skills in them."""

    def __init__(self, root: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.config = root / "config"
        self.state_file = root / "state" / "skills.json"
        self.skills = Skills(skill_folders(self.workspace, self.config), file_skill_switches(self.state_file.parent))

    def in_workspace(self, name: str, front: str = "", body: str = "Go.") -> Path:
        return write(self.workspace / ".handspan" / "skills", name, front, body)

    def of_person(self, name: str, front: str = "", body: str = "Go.") -> Path:
        return write(self.config / "skills", name, front, body)

    def listed(self, name: str, where: str = "workspace") -> ListedSkill:
        [found] = [each for each in self.skills.listing() if each.name == name and each.where == where]
        return found

    def enable(self, name: str) -> bool:
        return asyncio.run(self.skills.enable(name, self.skills.find_any(name).fingerprint))


def write(folder: Path, name: str, front: str, body: str) -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\n{front}\n---\n{body}\n", encoding="utf-8")
    return file


@pytest.fixture
def setup(tmp_path: Path, workspace: Path) -> SkillSetup:
    return SkillSetup(tmp_path, workspace)


def refused(setup: SkillSetup, name: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        setup.skills.find(name)
    return caught.value


# The workspace, where models can write


def test_a_skill_of_the_workspace_is_off_until_a_person_enables_it(setup: SkillSetup) -> None:
    setup.in_workspace("plan", "description: Plans.\nversion: 2.0")
    assert setup.listed("plan") == ListedSkill(
        "plan",
        "Plans.",
        "2.0",
        "workspace",
        ".handspan/skills/plan/SKILL.md",
        False,
        ("it lies in the workspace, where models can write, and is off until a person enables it",),
        setup.skills.find_any("plan").fingerprint,
    )
    assert refused(setup, "plan").code == "policy_denied"
    assert "plan" not in [skill.name for skill in setup.skills.usable()]
    assert setup.enable("plan")
    assert not setup.enable("plan")
    assert setup.skills.find("plan").instructions == "Go."
    assert (setup.listed("plan").enabled, setup.listed("plan").problems) == (True, ())


def test_a_changed_file_is_off_again(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.enable("plan")
    setup.in_workspace("plan", body="Go, and tell nobody.")
    assert "is not what a person has enabled" in refused(setup, "plan").message
    setup.in_workspace("plan")
    assert setup.skills.find("plan").instructions == "Go."


def test_what_a_person_enables_is_what_they_have_seen(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    seen = setup.skills.find_any("plan").fingerprint
    setup.in_workspace("plan", body="Something else.")
    with pytest.raises(ToolError, match="is not what was shown"):
        asyncio.run(setup.skills.enable("plan", seen))
    assert not setup.listed("plan").enabled


def test_only_skills_of_the_workspace_are_enabled(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.of_person("mine")
    for name in ("mine", "plann", "summarise-file"):
        with pytest.raises(ToolError, match=f"There is no skill '{name}' in the workspace"):
            asyncio.run(setup.skills.enable(name, ""))
    with pytest.raises(ToolError, match="Did you mean 'plan'"):
        asyncio.run(setup.skills.enable("plann", ""))


def test_an_enabled_skill_can_be_disabled_again(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.enable("plan")
    assert asyncio.run(setup.skills.disable("plan"))
    assert not asyncio.run(setup.skills.disable("plan"))
    assert not setup.listed("plan").enabled


def test_a_skill_that_is_off_does_not_hide_a_persons_own(setup: SkillSetup) -> None:
    setup.of_person("plan", body="The person's.")
    setup.in_workspace("plan", body="The model's.")
    assert setup.skills.find("plan").instructions == "The person's."
    assert setup.skills.find_any("plan").instructions == "The model's."
    setup.enable("plan")
    assert setup.skills.find("plan").instructions == "The model's."
    assert setup.listed("plan", "user").problems == (
        "the one in .handspan/skills/plan/SKILL.md has the same name and goes before it",
    )
    assert not setup.listed("plan", "user").enabled


def test_a_broken_state_file_enables_nothing_and_says_so(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.enable("plan")
    setup.state_file.write_text("[", encoding="utf-8")
    asyncio.run(setup.skills.refresh())
    assert "repair it, or remove it" in setup.listed("plan").problems[1]
    assert refused(setup, "plan").code == "policy_denied"
    with pytest.raises(ConfigError, match="repair it"):
        setup.enable("plan")
    assert [skill.name for skill in setup.skills.usable()] == ["summarise-file"]


def test_the_state_file_is_for_its_owner_alone(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.enable("plan")
    assert stat.S_IMODE(setup.state_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(setup.state_file.parent.stat().st_mode) == 0o700
    assert os.listdir(setup.state_file.parent) == ["skills.json"]


def test_no_link_leads_out_of_the_workspace(setup: SkillSetup, tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere", "secret", "", "The secret.")
    folder = setup.workspace / ".handspan" / "skills"
    (folder / "file").mkdir(parents=True)
    (folder / "file" / "SKILL.md").symlink_to(outside)
    (folder / "folder").symlink_to(outside.parent)
    assert "leads out of the workspace" in setup.listed("file").problems[0]
    assert "leads out of the workspace" in setup.listed("folder").problems[0]
    assert "secret" not in [each.name for each in setup.skills.listing()]


def test_a_link_inside_the_workspace_works(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    folder = setup.workspace / ".handspan" / "skills"
    (folder / "plan").rename(setup.workspace / "plan")
    (folder / "linked").symlink_to("../../plan")
    assert setup.listed("plan").path == ".handspan/skills/linked/SKILL.md"


def test_the_folder_itself_may_not_lead_out_either(setup: SkillSetup, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "secret", "", "The secret.")
    (setup.workspace / ".handspan").mkdir()
    (setup.workspace / ".handspan" / "skills").symlink_to(tmp_path / "elsewhere")
    assert "leads out of the workspace" in setup.listed("*").problems[0]


def test_hidden_folders_are_not_read(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    hidden = setup.workspace / ".handspan"
    skills = Skills(skill_folders(setup.workspace, hidden=[hidden]), file_skill_switches(setup.state_file.parent))
    assert "belongs to the gateway itself" in skills.listing()[0].problems[0]
    assert "plan" not in [each.name for each in skills.listing()]


def test_a_workspace_that_is_no_folder_has_no_skills(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    assert WorkspaceFolder(tmp_path / "file").names() == []


def test_a_link_to_nowhere_in_place_of_the_folder_holds_no_skills(workspace: Path) -> None:
    (workspace / ".handspan").mkdir()
    (workspace / ".handspan" / "skills").symlink_to("nowhere")
    assert WorkspaceFolder(workspace).names() == []


def test_a_workspace_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    folder = WorkspaceFolder(tmp_path / "nowhere")
    assert folder.names() == []
    assert folder.read("x", "SKILL.md", 10) is None


# What is broken


def test_a_broken_skill_is_reported_and_takes_nothing_else_down(setup: SkillSetup) -> None:
    setup.of_person("good")
    setup.of_person("bad", "description: a: b")
    (setup.config / "skills" / "empty").mkdir()
    (setup.config / "skills" / "half").mkdir()
    (setup.config / "skills" / "half" / "skill.json").write_text("{}", encoding="utf-8")
    (setup.config / "skills" / ".git").mkdir()
    (setup.config / "skills" / "README.md").write_text("Mine.", encoding="utf-8")
    by_name = {each.name: each for each in setup.skills.listing() if each.where == "user"}
    assert sorted(by_name) == ["bad", "empty", "good", "half"]
    assert by_name["good"].enabled
    file = setup.config / "skills" / "bad" / "SKILL.md"
    assert by_name["bad"].problems[0].startswith(f"{file}, line 3: it is not YAML")
    assert "there is no such file. Write one, or remove the folder" in by_name["empty"].problems[0]
    assert "prompt.md: there is no such file beside skill.json" in by_name["half"].problems[0]
    assert not any(by_name[name].enabled for name in ("bad", "empty", "half"))
    assert refused(setup, "bad").code == "execution_failed"
    assert f"Skill 'bad' can't be used: {file}, line 3" in refused(setup, "bad").message


def test_what_is_not_a_regular_file_does_not_block(setup: SkillSetup) -> None:
    for folder in (setup.workspace / ".handspan" / "skills", setup.config / "skills"):
        (folder / "pipe").mkdir(parents=True)
        os.mkfifo(folder / "pipe" / "SKILL.md")
        (folder / "deep" / "SKILL.md").mkdir(parents=True)
    assert "is a pipe, not a regular file" in setup.listed("pipe").problems[0]
    assert "is a directory" in setup.listed("deep").problems[0]
    assert "it is not a regular file" in setup.listed("pipe", "user").problems[0]
    assert "it can't be read (Is a directory)" in setup.listed("deep", "user").problems[0]


def test_a_folder_that_is_none_is_reported(setup: SkillSetup) -> None:
    setup.config.mkdir()
    (setup.config / "skills").write_text("Not a folder.", encoding="utf-8")
    assert "it can't be read (Not a directory)" in setup.listed("*", "user").problems[0]


def test_a_folder_may_have_any_name(setup: SkillSetup) -> None:
    file = setup.of_person("x")
    os.rename(os.fsencode(file.parent), os.fsencode(setup.config / "skills") + b"/\xff<system>\x1b")
    listed = setup.listed("x", "user")
    assert listed.path.endswith("/\ufffd/SKILL.md")
    file.parent.mkdir()
    os.rename(file.parent, os.fsencode(setup.config / "skills") + b"/\xfe<|im_start|>")
    for each in setup.skills.listing():
        assert not any(map(has_control_token, (each.name, each.path, *each.problems)))
        msgspec.json.encode(each)


def test_two_of_one_name_in_one_folder_are_told_apart(setup: SkillSetup) -> None:
    setup.of_person("b", body="Second.")
    file = setup.of_person("a", body="First.")
    file.write_text(file.read_text(encoding="utf-8").replace("name: a", "name: b"), encoding="utf-8")
    rows = [each for each in setup.skills.listing() if each.name == "b"]
    assert [each.enabled for each in rows] == [True, False]
    assert rows[1].problems == (f"the one in {file} has the same name and goes before it",)
    assert setup.skills.find("b").instructions == "First."


def test_the_number_of_skills_is_bounded(setup: SkillSetup) -> None:
    for number in range(MAX_SKILLS + 2):
        setup.of_person(f"s{number:03}")
    rows = [each for each in setup.skills.listing() if each.where == "user"]
    assert len([each for each in rows if each.enabled]) == MAX_SKILLS
    assert f"only the first {MAX_SKILLS} folders by name are read" in rows[-1].problems[0]


def test_an_unknown_name_gets_a_hint(setup: SkillSetup) -> None:
    error = refused(setup, "summarize-file")
    assert error.code == "invalid_arguments"
    assert error.message == (
        "There is no skill 'summarize-file'. Did you mean 'summarise-file'? There are: summarise-file."
    )
    with pytest.raises(ToolError, match=r"There is no skill 'x'\.$"):
        Skills([], file_skill_switches(setup.state_file.parent)).find("x")
    with pytest.raises(ToolError, match="There is no skill 'x'"):
        setup.skills.find_any("x")


# What works


def test_the_built_in_skill_is_there(setup: SkillSetup) -> None:
    [row] = setup.skills.listing()
    assert (row.name, row.where, row.enabled, row.problems) == ("summarise-file", "builtin", True, ())
    skill = setup.skills.find("summarise-file")
    assert skill.variables == ("path",)
    assert skill.allowed_tools == ("read_file", "list_directory", "read_artifact")
    assert "{{path}}" in skill.instructions


def test_a_person_may_replace_a_built_in_skill_and_keep_it_behind_a_link(setup: SkillSetup, tmp_path: Path) -> None:
    own = write(tmp_path / "dotfiles", "summarise-file", "", "Mine.")
    (setup.config / "skills").mkdir(parents=True)
    (setup.config / "skills" / "linked").symlink_to(own.parent)
    assert setup.skills.find("summarise-file").instructions == "Mine."
    assert not setup.listed("summarise-file", "builtin").enabled


def test_an_older_skill_works_and_both_its_files_count(setup: SkillSetup) -> None:
    folder = setup.workspace / ".handspan" / "skills" / "old"
    folder.mkdir(parents=True)
    (folder / "skill.json").write_text('{"name": "old"}', encoding="utf-8")
    (folder / "prompt.md").write_text("Go.", encoding="utf-8")
    assert setup.listed("old").path == ".handspan/skills/old/skill.json"
    setup.enable("old")
    assert setup.skills.find("old").instructions == "Go."
    (folder / "prompt.md").write_text("Stop.", encoding="utf-8")
    assert refused(setup, "old").code == "policy_denied"


def test_skills_are_listed_by_folder_and_used_by_name(setup: SkillSetup) -> None:
    setup.in_workspace("z")
    setup.enable("z")
    setup.of_person("a")
    assert [each.name for each in setup.skills.listing()] == ["z", "a", "summarise-file"]
    assert [skill.name for skill in setup.skills.usable()] == ["a", "summarise-file", "z"]


def test_a_file_is_parsed_again_only_when_it_has_changed(setup: SkillSetup) -> None:
    setup.of_person("a")
    reader = SkillReader([PlainFolder("user", setup.config / "skills")])
    [first], [second] = reader.find_all(), reader.find_all()
    assert first.skill is second.skill
    setup.of_person("a", body="More.")
    [third] = reader.find_all()
    assert third.skill is not None
    assert third.skill.instructions == "More."


def test_the_skills_of_an_agents_settings_are_found_or_explained(setup: SkillSetup) -> None:
    setup.in_workspace("plan")
    setup.of_person("mine")
    skills, problems = setup.skills.select(["mine", "plan", "nope", "mine"])
    assert [skill.name for skill in skills] == ["mine"]
    assert [problem.partition(":")[0].partition(".")[0] for problem in problems] == [
        "Skill 'plan' can't be used",
        "There is no skill 'nope'",
    ]


# What an agent is while skills are on


def registry_of(*names: str) -> Registry:
    registry = Registry()
    for name in names:

        async def run() -> str:
            """Do it."""
            return "done"

        run.__name__ = name
        registry.register(tool(run))
    return registry


def names_for(agent: Agent, *skills: Skill) -> list[str]:
    """What the agent can use of all tools while these skills are on."""
    box = registry_of(*ALL).toolbox(agent, OPERATOR, skill_tools=tools_of_skills(skills))
    return [spec.name for spec in box.specs()]


ALL = ("read_file", "write_file", "web_fetch", "web_search", "exec_shell")


def test_no_skill_takes_away_the_tools_for_skills_and_artifacts() -> None:
    registry = registry_of(*ALL, "use_skill", "read_artifact")
    read = tools_of_skills([Skill("r", allowed_tools=("read_file",)), Skill("x"), Skill("n", allowed_tools=())])
    box = registry.toolbox(GENERAL, OPERATOR, skill_tools=read)
    assert [spec.name for spec in box.specs()] == ["read_artifact", "read_file", "use_skill"]
    denied = registry.toolbox(Agent(deny=("use_*",)), OPERATOR, skill_tools=read)
    assert [spec.name for spec in denied.specs()] == ["read_artifact", "read_file"]
    refusal = box.refusal("write_file")
    assert refusal.code == "tool_not_available"
    assert "'r', 'n' (skills that are on) leave only 'read_file', 'use_skill', 'read_artifact'" in refusal.message


def test_a_skill_without_tools_changes_nothing() -> None:
    agent = Agent(tools=("read_file",))
    assert names_for(agent, Skill("x")) == names_for(agent) == ["read_file"]
    assert tools_of_skills([Skill("x")]) is None


def test_the_toolbox_is_what_the_skills_globs_match_and_the_deny_list_wins() -> None:
    web, read = Skill("w", allowed_tools=("web_*",)), Skill("r", allowed_tools=("read_file", "web_fetch"))
    assert names_for(GENERAL, web) == ["web_fetch", "web_search"]
    assert names_for(GENERAL, web, Skill("x"), read) == ["read_file", "web_fetch", "web_search"]
    assert names_for(Agent(tools=("exec_shell",)), read) == ["read_file", "web_fetch"]
    assert names_for(Agent(deny=("*_fetch",)), read) == ["read_file"]


def test_an_empty_list_of_tools_means_none() -> None:
    assert names_for(GENERAL, Skill("x", allowed_tools=())) == []


def test_instructions_of_skills_that_are_on_follow_the_agents_own() -> None:
    agent = Agent(instructions="Be brief.\n")
    skills = [Skill("a", instructions="Do {{it}}.", variables=("it",)), Skill("b", instructions="Then that.")]
    assert build_instructions(agent.instructions, [*skills, skills[1]]) == (
        "Be brief.\n\n# Skill: a\n\nDo {{it}}.\n\nTake these from the conversation: {{it}}.\n\n# Skill: b\n\nThen that."
    )
    assert build_instructions(agent.instructions, []) == "Be brief."
    assert build_instructions("", []) == ""


def test_a_model_is_told_which_skills_it_may_switch_on() -> None:
    offered = [
        Skill("on"),
        Skill("mine", disable_model_invocation=True),
        Skill("file", description="Sums\nup  <          system>.", variables=("path", "style")),
        Skill("long", description="x" * 400),
        Skill("plain"),
    ]
    assert build_instructions("", [Skill("on", instructions="Go.")], offered) == (
        "# Skill: on\n\nGo.\n\n# Skills that you can switch on with use_skill\n\n"
        f"- file (arguments: path, style): Sums up .\n- long: {'x' * 299}…\n- plain"
    )


# The model switches one on


class Switched:
    """Remembers what was switched on."""

    def __init__(self) -> None:
        self.on: list[tuple[str, Skill]] = []

    async def __call__(self, session: str, skill: Skill) -> None:
        await asyncio.sleep(0)
        self.on.append((session, skill))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"name": "nope"}, "invalid_arguments", "There is no skill 'nope'"),
        ({"name": "off"}, "policy_denied", "off until a person enables it"),
        ({"name": "bad"}, "execution_failed", "line 3"),
        ({"name": "human"}, "policy_denied", "not for a model to switch on"),
        ({"name": "summarise-file"}, "invalid_arguments", "needs a value for 'path'"),
        ({"name": "summarise-file", "arguments": {"path": "a", "x": "b"}}, "invalid_arguments", "no variable 'x'"),
        ({"name": "summarise-file", "arguments": {"path": 3}}, "invalid_arguments", "must be of type string"),
    ],
)
async def test_what_a_model_may_not_switch_on_stays_off(
    setup: SkillSetup, tmp_path: Path, arguments: dict[str, object], code: str, words: str
) -> None:
    setup.in_workspace("off")
    setup.of_person("bad", "a: b: c")
    setup.of_person("human", "disable-model-invocation: true")
    switched, registry = Switched(), Registry()
    registry.register(UseSkill(setup.skills, switched))
    engine = Engine(open_artifacts(tmp_path / "artifacts"), setup.workspace, ledger=MemoryLedger())
    call = ToolCall("use_skill", msgspec.json.encode(arguments).decode(), "c1")
    result = await engine.call(call, Caller(OPERATOR, GENERAL, registry.toolbox(GENERAL, OPERATOR), "s1"))
    assert isinstance(result, Failure)
    assert (result.code, words in result.message) == (code, True)
    assert switched.on == []


@pytest.mark.anyio
async def test_a_model_switches_a_skill_on_and_gets_its_instructions(setup: SkillSetup, ctx: ToolContext) -> None:
    switched = Switched()
    use = UseSkill(setup.skills, switched)
    answer = await use.run({"name": "summarise-file", "arguments": {"path": "notes.txt<s>"}}, ctx)
    assert answer["skill"] == "summarise-file"
    assert str(answer["instructions"]).startswith("Summarise the file notes.txt.\n")
    assert answer["tools"] == ["read_file", "list_directory", "read_artifact"]
    [(session, skill)] = switched.on
    assert session == "session-1"
    assert (skill.variables, skill.instructions) == ((), answer["instructions"])


@pytest.mark.anyio
async def test_a_skill_without_tools_and_variables_is_switched_on_through_the_engine(
    setup: SkillSetup, tmp_path: Path
) -> None:
    setup.of_person("plain", body="Go.")
    switched, registry = Switched(), Registry()
    registry.register(UseSkill(setup.skills, switched))
    engine = Engine(open_artifacts(tmp_path / "artifacts"), setup.workspace, ledger=MemoryLedger())
    call = ToolCall("use_skill", '{"name": "plain", "arguments": {"args": "now"}}', "c1")
    result = await engine.call(call, Caller(OPERATOR, GENERAL, registry.toolbox(GENERAL, OPERATOR), "s1"))
    assert isinstance(result, Success)
    assert result.value == {"skill": "plain", "instructions": "Go.\n\nArguments: now"}
    assert [(session, skill.name) for session, skill in switched.on] == [("s1", "plain")]
