"""The Dockerfile beside README, the page of the installation and the proof of the wheels. No test
builds the image: tests/wheel/image.py runs its last stage, as root and with the network."""

import re
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT

sys.path[:0] = [str(ROOT / "python" / "packaging"), str(ROOT / "tests" / "wheel")]

import chroots  # noqa: E402
import image  # noqa: E402

TEXT = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "installation.md").read_text()
README = (ROOT / "README.md").read_text()
BUILD, LAST = image.stages(TEXT)


def test_continued_lines_are_joined_and_comments_left_out():
    text = "# a\nFROM x AS y\nRUN a \\\n    b\n\n# c\nFROM z\nENV A=1\n"
    assert image.stages(text) == [[("FROM", "x AS y"), ("RUN", "a b")],
                                  [("FROM", "z"), ("ENV", "A=1")]]  # fmt: skip
    with pytest.raises(SystemExit, match="expected FROM first, found RUN"):
        image.stages("RUN a\n")


def test_the_first_stage_builds_the_wheel_as_readme_says():
    (command,) = [rest for rest in image.arguments_of(BUILD, "RUN") if rest.startswith("./dev")]
    words = command.split()
    assert f"`{' '.join(words[:2])}`" in README and f"`{' '.join(words[:2])}`" in PAGE
    listed = subprocess.check_output([ROOT / "dev", "help"], text=True)
    (usage,) = re.findall(r"^(\./dev wheel .*)$", listed, re.MULTILINE)
    assert all(word in usage for word in words if word.startswith("--"))
    (script,) = re.findall(r"^readonly python=(\S+)", (ROOT / "dev").read_text(), re.MULTILINE)
    assert words[-1] == script, "the Python whose wheel the last stage installs"


def test_the_last_stage_installs_what_the_proof_of_the_wheels_installs():
    assert [image.arguments_of(stage, "FROM")[0].split()[0] for stage in (BUILD, LAST)] == [
        "debian:12", "debian:12-slim",
    ]  # fmt: skip
    assert chroots.SUITES[0] == "bookworm", "Debian 12 is among the proven ones"
    proven = set(chroots.PACKAGES.split(","))
    assert image.packages_of(LAST) == proven - {"ca-certificates"}
    (copied,) = image.arguments_of(LAST, "COPY")
    (workdir,) = image.arguments_of(BUILD, "WORKDIR")
    written = chroots.WHEELS.relative_to(chroots.ROOT)
    assert copied == f"--from=build {workdir}/{written}/ /wheels/"
    installs = [rest for rest in image.arguments_of(LAST, "RUN") if "pip install" in rest]
    assert len(installs) == 1 and "/wheels/orrery-*.whl" in installs[0]
    assert "`pip install orrery-*.whl`" in PAGE


def test_the_first_commands_of_readme_run_in_the_image():
    assert image.arguments_of(LAST, "ENTRYPOINT") == ['["orrery"]']
    assert all(line.startswith("orrery ") for line in chroots.first_commands(README))
    (user,), (folder,) = (image.arguments_of(LAST, word) for word in ("USER", "WORKDIR"))
    created = [rest for rest in image.arguments_of(LAST, "RUN") if rest.startswith("useradd ")]
    assert created == [f"useradd --home-dir {folder} --create-home {user}"], "files go there"


def test_the_lines_of_docker_on_the_pages_name_examples_and_extras_that_exist():
    pages = [ROOT / "docs" / "kubernetes.md"]
    texts = [TEXT, PAGE, *(page.read_text() for page in pages)]
    ran = [words for text in texts for words in image.examples_of(text)]
    assert len(ran) >= 2
    for words in ran:
        assert words[0] == "simulate" and (EXAMPLES / f"{words[1]}.yaml").is_file(), words
    project = (ROOT / "pyproject.toml").read_text()
    (table,) = re.findall(r"^\[project.optional-dependencies\]\n(.*?)\n\n", project,
                          re.DOTALL | re.MULTILINE)  # fmt: skip
    extras = [name for text in texts for name in re.findall(r"EXTRAS='\[(\w+)\]'", text)]
    assert len(extras) >= 2 and set(extras) <= set(re.findall(r"^(\w+) = ", table, re.MULTILINE))
    assert image.arguments_of(LAST, "ARG") == ["EXTRAS="]


def test_the_page_says_what_of_the_image_is_not_shown():
    section = PAGE.partition("\n## Image\n")[2].partition("\n## ")[0]
    assert "has not been built" in " ".join(section.split())
    assert "tests/wheel/image.py" in section
