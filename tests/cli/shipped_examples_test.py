"""Names of shipped examples in place of files."""

from conftest import EXAMPLES, orrery


def test_a_shipped_example_has_a_name_in_any_folder(tmp_path):
    short = ("--set", "run.steps=2", "--json")
    named = orrery("simulate", "straggler-4-ranks", *short, cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    assert orrery("check", "compare/plain", cwd=tmp_path).returncode == 0
    (tmp_path / "straggler-4-ranks").write_text("name: mine\n")
    mine = orrery("simulate", "straggler-4-ranks", cwd=tmp_path)
    assert mine.returncode == 3 and "straggler-4-ranks:1:1" in mine.stderr, "files come first"


def test_what_is_neither_a_file_nor_an_example_is_refused_with_the_nearest_name(tmp_path):
    for command in (["simulate"], ["check"], ["jobs", "--nodes", 1, "--gpus-per-node", 8]):
        refused = orrery(*command, "straggler-5-ranks", cwd=tmp_path)
        assert refused.returncode == 3
        assert refused.stderr == (
            "error: expected a file, or the name of a shipped example (orrery list examples), "
            "found 'straggler-5-ranks'; did you mean 'straggler-4-ranks'?\n"
        )
    for path in ("straggler-4-ranks.yml", tmp_path / "none"):
        refused = orrery("simulate", path, cwd=tmp_path)
        assert refused.returncode == 3 and f"{path}:1:1: error: cannot be read" in refused.stderr


def test_commands_about_a_file_take_the_name_of_an_example(tmp_path):
    named = orrery("layouts", "llama3-70b-512-h100", "--top", 1, cwd=tmp_path)
    assert "llama3-70b on 512 H100" in named.stdout, named.stderr
    described = orrery("describe", "straggler-4-ranks", cwd=tmp_path)
    assert "straggler-4-ranks.yaml: scenario" in described.stdout, described.stderr
    assert orrery("convert", "compare/plain", "-o", "mine.yaml", cwd=tmp_path).returncode == 0
    assert orrery("check", "mine.yaml", cwd=tmp_path).returncode == 0
    replayed = orrery("jobs", "replay-one-spine", cwd=tmp_path)
    assert "one-spine-jobs.csv" in replayed.stdout, replayed.stderr
    explained = orrery("explain", "replay-one-spine", "--job", "second", "--speed", "recorded",
                       cwd=tmp_path)  # fmt: skip
    assert "job second: 256 GPUs" in explained.stdout, explained.stderr


def test_all_names_are_of_examples():
    lines = orrery("list", "examples").stdout.splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert "straggler-4-ranks" in names and "compare/plain" in names
    assert names == sorted(names)
    all_examples = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.yaml")}
    traced = {"chakra-gpt64.yaml"}  # its trace does not ship
    assert {f"{name}.yaml" for name in names} == all_examples - traced
