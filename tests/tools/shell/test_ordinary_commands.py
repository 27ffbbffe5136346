"""A hundred ordinary command lines, as coding agents write them, each run in the sandbox with the default settings."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from handspan.core.context import ToolContext
from handspan.tools.sandbox import SANDBOX_UID, Sandbox, create_workspace
from handspan.tools.shell.launcher import CommandLauncher
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import ExecShell
from tests.tools.child_processes import probe

pytestmark = pytest.mark.anyio

# The command line, and what it prints.
LINES = (
    ("printf '%s-%s\\n' a b", "a-b\n"),
    ("seq 3", "1\n2\n3\n"),
    ("sleep 0.01 && echo rested", "rested\n"),
    ("exit 0", ""),
    ("set -e; true; echo ok", "ok\n"),
    ("bash -c 'set -euo pipefail; echo strict'", "strict\n"),
    ("set -x; echo traced", "traced\n"),
    ("while read -r line; do echo \"<$line>\"; done < words.txt", "<pear>\n<apple>\n<fig>\n"),
    ("cat words.txt | while IFS= read -r w; do printf '%s ' \"$w\"; done", "pear apple fig "),
    ("make -s hello", "hello from make\n"),
    ("make -n hello", "echo hello from make\n"),
    ("tar czf a.tgz words.txt && tar tzf a.tgz", "words.txt\n"),
    ("mkdir -p out && tar xf a.tar -C out && cat out/words.txt | wc -l", "3\n"),
    ("jq -r .name package.json", "demo\n"),
    ("du -s words.txt | cut -f2", "words.txt\n"),
    ("df . >/dev/null && echo ok", "ok\n"),
    ("xxd -p words.txt | head -c 8", "70656172"),
    ("sh script.sh you", "hi you\n"),
    ("./script.sh there", "hi there\n"),
    ("bash script.sh bash", "hi bash\n"),
    ("bash -c '[[ -f words.txt ]] && echo found'", "found\n"),
    ("bash -c 'diff <(sort words.txt) <(sort -r words.txt) >/dev/null; echo $?'", "1\n"),
    ("bash -c 'a=(x y z); echo ${a[1]} ${#a[@]}'", "y 3\n"),
    ("case words.txt in *.txt) echo text;; *) echo other;; esac", "text\n"),
    ("greet() { echo \"hello $1\"; }; greet you", "hello you\n"),
    ("for i in 1 2 3; do echo $((i * i)); done", "1\n4\n9\n"),
    ("for f in wor*.txt; do basename \"$f\" .txt; done", "words\n"),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", "3\n"),
    ("i=3; until [ $i -eq 0 ]; do i=$((i - 1)); done; echo $i", "0\n"),
    ("if [ -f words.txt ]; then echo yes; else echo no; fi", "yes\n"),
    ("[ -d src ] && echo folder || echo none", "folder\n"),
    ("test -x script.sh && echo runs", "runs\n"),
    ("x=${UNSET:-default}; echo $x", "default\n"),
    ("x=words.txt; echo ${x%.txt} ${#x}", "words 9\n"),
    ("echo $((0x10 + 7 % 4))", "19\n"),
    ("echo \"today: $(date +%Y | wc -c)\"", "today: 5\n"),
    ("echo `echo nested`", "nested\n"),
    ("cd src && pwd && cd - >/dev/null && pwd", "/workspace/src\n/workspace\n"),
    ("(cd src; ls); pwd", "app.py\nlib.py\n/workspace\n"),
    ("ls -la | head -1 | cut -c1-5", "total\n"),
    ("ls wo*.txt missing 2>/dev/null; true", "words.txt\n"),
    ("find . -name '*.py' | sort", "./src/app.py\n./src/lib.py\n"),
    ("find src -type f -exec wc -l {} + | tail -1 | awk '{print $2}'", "total\n"),
    ("find . -name '*.py' -print0 | xargs -0 grep -l import | sort", "./src/app.py\n"),
    ("grep -rn 'def ' src | sort", "src/app.py:2:def main():\nsrc/lib.py:1:def add(a, b):\n"),
    ("grep -rn 'reboot\\|shutdown' . ; echo $?", "1\n"),
    ("grep -c a words.txt", "2\n"),
    ("sort words.txt | uniq -c | sort -rn | awk '{print $2}'", "pear\nfig\napple\n"),
    ("sed -n '2p' words.txt", "apple\n"),
    ("cp words.txt w2 && sed -i 's/pear/plum/' w2 && head -1 w2", "plum\n"),
    ("awk -F, '{s += $2} END {print s}' table.csv", "6\n"),
    ("cut -d, -f1 table.csv | paste -sd+ -", "a+b+c\n"),
    ("tr a-z A-Z < words.txt | tail -n 1", "FIG\n"),
    ("wc -l < words.txt", "3\n"),
    ("head -c 4 words.txt; echo", "pear\n"),
    ("rev words.txt | head -1", "raep\n"),
    ("nl -ba words.txt | awk '{print $1 $2}' | tail -1", "3fig\n"),
    ("sort words.txt > sorted && comm -12 sorted sorted | wc -l", "3\n"),
    ("join table.csv table.csv -t, | head -1", "a,1,1\n"),
    ("split -l 1 words.txt part- && ls part-* | wc -l", "3\n"),
    ("cat > note.md <<'EOF'\n# Setup\nsudo apt-get install x  # not run\nEOF\nwc -l < note.md", "2\n"),
    ("cat <<EOF\nhome is $HOME\nEOF", "home is /tmp\n"),
    ("echo one > l && echo two >> l && cat l", "one\ntwo\n"),
    ("echo err >&2; echo out", "out\n"),
    ("ls missing > all.log 2>&1; grep -c missing all.log", "1\n"),
    ("true | false; echo $?", "1\n"),
    ("! false && echo inverted", "inverted\n"),
    ("echo a & wait; echo b", "a\nb\n"),
    ("sleep 5 & kill $! && echo killed", "killed\n"),
    ("trap 'echo bye' EXIT; echo working", "working\nbye\n"),
    ("timeout 5 echo in time", "in time\n"),
    ("time -p true 2>/dev/null; echo timed", "timed\n"),
    ("nohup echo kept 2>/dev/null", "kept\n"),
    ("nice -n 5 echo nice", "nice\n"),
    ("env FOO=bar sh -c 'echo $FOO'", "bar\n"),
    ("FOO=1 BAR=2 printenv BAR", "2\n"),
    ("export GREETING=hey; sh -c 'echo $GREETING'", "hey\n"),
    ("PATH=$PATH:. command -v ls", "/usr/bin/ls\n"),
    ("which sh", "/usr/bin/sh\n"),
    ("command -v python3 >/dev/null && echo has python", "has python\n"),
    ("type cd", "cd is a shell builtin\n"),
    ("python3 -c 'print(sum(range(5)))'", "10\n"),
    ("python3 - <<'EOF'\nprint('from stdin')\nEOF", "from stdin\n"),
    ("python3 src/app.py", "3\n"),
    ("cd src && python3 -m unittest -q lib 2>&1 | grep -c Ran", "1\n"),
    ("python3 -m json.tool package.json >/dev/null && echo valid", "valid\n"),
    ("PYTHONPATH=src python3 -c 'import lib; print(lib.add(2, 2))'", "4\n"),
    ("git init -q repo && cd repo && git status --short | wc -l", "0\n"),
    ("git init -q r2 && cd r2 && echo a > a && git add . && git -c user.name=n -c user.email=e commit -qm 'Say reboot' "
     "&& git log --format=%s", "Say reboot\n"),
    ("git init -q r3 && cd r3 && git commit -q --allow-empty -m First && git log --format=%an", "sandbox\n"),
    ("git --version | cut -d' ' -f1-2", "git version\n"),
    ("diff -u words.txt w-other.txt | grep -c '^[+-][a-z]'", "2\n"),
    ("cmp words.txt words.txt && echo same", "same\n"),
    ("md5sum words.txt | wc -c; sha256sum words.txt | cut -c1-4 | wc -c", "44\n5\n"),
    ("base64 words.txt | base64 -d | head -1", "pear\n"),
    ("gzip -k words.txt -c | gunzip | tail -1", "fig\n"),
    ("mktemp -d | cut -c1-5", "/tmp/\n"),
    ("mkdir -p /tmp/x/y && rm -rf /tmp/x && ls -d /tmp/x 2>/dev/null; echo gone", "gone\n"),
    ("touch t && chmod 755 t && stat -c %a t", "755\n"),
    ("ln -s words.txt link && readlink link", "words.txt\n"),
    ("cp -r src copy && mv copy moved && rm -rf moved && ls -d moved 2>/dev/null; echo done", "done\n"),
    ("realpath src/../words.txt", "/workspace/words.txt\n"),
    ("whoami; id -un; hostname", "sandbox\nsandbox\nsandbox\n"),
    ("uname -s; nproc >/dev/null; echo $SHLVL | wc -l", "Linux\n1\n"),
    ("ps >/dev/null 2>&1 || ls /proc >/dev/null; echo looked", "looked\n"),
    ("ulimit -n >/dev/null; umask >/dev/null; echo limits", "limits\n"),
    ("yes | head -2", "y\ny\n"),
    ("echo 'a b' | xargs -n1 echo", "a\nb\n"),
    ("expr 2 + 3; echo '5 * 5' | python3 -c 'print(eval(input()))'", "5\n25\n"),
    ("printf 'x\\ty\\n' | column -t 2>/dev/null || printf 'x y\\n'", "x  y\n"),
    ("tee a1 a2 < words.txt >/dev/null; cat a1 a2 | wc -l", "6\n"),
    ("perl -ne 'print if /a/' words.txt", "pear\napple\n"),
    ("node -e 'console.log(1 + 1)'", "2\n"),
    ("gcc -x c -o prog - <<'EOF' && ./prog; echo $?\nint main(void) { return 7; }\nEOF", "7\n"),
    ("zip -q z.zip words.txt && unzip -p z.zip | head -1", "pear\n"),
    ("echo '2 * 21' | bc", "42\n"),
)  # fmt: skip
# These may be missing on a machine: their lines are only run where they are there.
OPTIONAL = (
    "make",
    "jq",
    "xxd",
    "git",
    "perl",
    "node",
    "gcc",
    "zip",
    "unzip",
    "bc",
    "bash",
    "hostname",
    "column",
    "rev",
)


def test_there_are_a_hundred_of_them() -> None:
    assert len({line for line, _ in LINES}) == len(LINES) >= 100


async def test_a_hundred_ordinary_command_lines_work_in_the_sandbox(on_disk: Path, ctx: ToolContext) -> None:
    folder = make_project(on_disk / "ws")
    sandbox = await probe(Sandbox(folder))
    if shutil.which("bwrap") is None or "namespace" in sandbox.report.reason:
        pytest.skip(str(sandbox.report))
    shell = ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox))
    turns = asyncio.Semaphore(4)

    async def run(line: str) -> object:
        async with turns:
            return (await shell.run({"command": line, "timeout": 55}, ctx)).get("stdout")

    lines = {line: expected for line, expected in LINES if is_possible(line)}
    answers = await asyncio.gather(*map(run, lines))
    wrong = {line: answer for (line, wanted), answer in zip(lines.items(), answers, strict=True) if answer != wanted}
    assert wrong == {}
    assert len(lines) >= 80


def is_possible(line: str) -> bool:
    words = line.replace("|", " ").replace("'", " ").split()
    return all(shutil.which(program) for program in OPTIONAL if program in words)


def make_project(folder: Path) -> Path:
    """A small project that belongs to the user of commands."""
    create_workspace(folder)
    (folder / "src").mkdir()
    files = {
        "words.txt": "pear\napple\nfig\n",
        "w-other.txt": "pear\nplum\nfig\n",
        "table.csv": "a,1\nb,2\nc,3\n",
        "package.json": '{"name": "demo"}\n',
        "Makefile": "hello:\n\techo hello from make\n",
        "script.sh": "#!/bin/sh\necho hi $1\n",
        "src/app.py": "import lib\ndef main():\n    print(lib.add(1, 2))\nmain()\n",
        "src/lib.py": "def add(a, b):\n    return a + b\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "script.sh").chmod(0o755)
    shutil.make_archive(str(folder / "a"), "tar", folder, "words.txt")
    if os.geteuid() == 0:
        for path in folder.rglob("*"):
            os.chown(path, SANDBOX_UID, SANDBOX_UID)
    return folder
