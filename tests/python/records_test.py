"""Events, actions and settings agree with the schema, in both directions."""

import dataclasses
import importlib.util
import inspect
import re
import typing

import numpy as np
import pytest
from conftest import ROOT, STRAGGLER

import orrery
from orrery import _records, actions, events, settings, values

GENERATOR = ROOT / "python" / "generate_records.py"


def generator():
    spec = importlib.util.spec_from_file_location("generate_records", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_committed_is_what_the_schema_says():
    generated = generator().generate()
    for name, text in generated.items():
        committed = (ROOT / "python" / "orrery" / name).read_text()
        assert committed == text, f"run python3 python/generate_records.py: {name} is stale"
    assert len(generated) == 5


def test_a_field_or_a_kind_that_the_schema_gains_is_there():
    module = generator()
    text = module.SCHEMA.read_text()
    text = text.replace(
        "message JobHeldRecord {\n  uint32 job = 1;",
        "message JobHeldRecord {\n  uint32 job = 1;\n  int64 since_ns = 2;  // of the loss",
    ).replace(
        "    TickRecord tick = 12;",
        "    TickRecord tick = 12;\n    NewsRecord news = 13;",
    )
    text += "\n// New.\nmessage NewsRecord {\n  bytes text = 1;\n  TierRecord from = 2;\n}\n"
    module.SCHEMA = type("Text", (), {"read_text": lambda self: text})()
    written = module.generate()["events.py"]
    assert "class News(Event):" in written and "    from_: Tier\n" in written
    assert "    since: float\n" in written and "Of the loss. Seconds." in written
    assert written.index("    Tick,\n") < written.index("    News,\n")


def test_the_compiled_part_knows_the_same_kinds():
    assert [kind.__name__ for kind in actions.KINDS] == orrery._core.action_names()
    assert [kind.__name__ for kind in settings.KINDS] == orrery._core.setting_names()
    some = {"StepsDoneRecord", "AssignRecord", "CodecRuleRecord", "JobRecord", "LayoutRecord"}
    assert some <= set(_records.CLASSES)


NAMES = re.compile(r"names_of\((\w+)\)\s*\{\s*return\s*\{([^}]*)\}")


def test_names_of_values_are_those_of_the_tables_in_cpp():
    tables = {
        enum: tuple(re.findall(r'"([^"]*)"', names))
        for room in ("topologies", "traces", "policies")
        for header in (ROOT / room).rglob("*.hpp")
        for enum, names in NAMES.findall(header.read_text())
    }
    shared = [name for name in tables if hasattr(values, name)]
    for name in shared:
        assert typing.get_args(getattr(values, name)) == tables[name], name
    assert {"CollectiveKind", "CollectiveAlgorithm", "LossResponse", "PartKind", "Tier"} <= set(
        shared
    )


@pytest.mark.parametrize("kind", [*actions.KINDS, *settings.KINDS, *events.KINDS])
def test_every_kind_says_what_it_is(kind):
    text = inspect.getdoc(kind)
    assert re.match(r"[A-Z][^\n]+", text) and "Something" not in text
    for field in dataclasses.fields(kind):
        assert re.search(rf"^{field.name} : ", text, re.MULTILINE), field.name


class Echo(orrery.Policy):
    """Policy that makes each decision of a list, once, in the middle of a step, and records the
    outcomes."""

    def __init__(self, *decided):
        self.decided, self.ids, self.outcomes, self.jobs = decided, [], {}, []

    def needs(self):
        return orrery.Needs(actions=orrery.actions.KINDS, settings=orrery.settings.KINDS)

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.Decided):
                self.outcomes[event.decision] = event
        if 0 in seen.jobs:
            self.jobs.append(seen.jobs[0])
        if not self.ids and seen.jobs[0].step == 2:
            self.ids = [decisions.add(each) for each in self.decided]


RULE = settings.CollectiveRule("all-reduce", from_bytes=1e6, from_ranks=2, algorithm="tree")


@pytest.mark.parametrize(
    "setting",
    [
        settings.Shares([9, 11, 10, 10]),
        settings.CollectiveTable([RULE]),
        settings.CodecRules([]),
        settings.OnLoss("hold"),
    ],
)
def test_a_setting_arrives_as_it_was_decided(setting):
    policy = Echo(actions.Configure(0, setting))
    orrery.simulate(STRAGGLER, policy=policy, run__steps=6, faults=[])
    assert policy.outcomes[0].status == "applied", policy.outcomes[0]
    assert setting in vars(policy.jobs[-2].now).values()


def test_numpy_numbers_and_ranges_are_numbers():
    shares = settings.Shares(np.array([13, 14, 13]))  # one a replica
    gpus = [range(0, 2), np.uint32(3)]
    move = actions.Assign(np.int64(0), gpus, orrery.Layout(data=3), "peer")
    policy = Echo(actions.Configure(np.int64(0), shares), move)
    orrery.simulate(STRAGGLER, policy=policy, run__steps=6)
    assert policy.outcomes[0].status == "applied", policy.outcomes[0]
    assert policy.outcomes[1].status == "applied", policy.outcomes[1]
    assert policy.jobs[-2].gpus == [0, 1, 3]
    assert policy.jobs[-2].now.shares == settings.Shares([13, 14, 13])


@pytest.mark.parametrize("layout", [orrery.Layout(data=0), orrery.Layout(tensor=0, data=2)])
def test_a_size_of_zero_is_refused(layout):
    policy = Echo(actions.Assign(0, [range(0, max(1, layout.data))], layout, "peer"))
    orrery.simulate(STRAGGLER, policy=policy, run__steps=6)
    assert policy.outcomes[0].status == "rejected"
    assert policy.outcomes[0].reason.startswith("the layout has no ranks")


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda d: d.add(settings.Shares([1])), r"action .* decisions.configure\(job, setting\)"),
        (lambda d: d.add(None), "expected an action"),
        (lambda d: d.configure(0, 5), "Configure.what: expected one of Shares, .*, got 5"),
        (lambda d: d.configure(0, settings.Shares("ab")), "Shares.per_replica: .* got 'ab'"),
        (lambda d: d.configure(0, settings.Shares([1, -1])), "whole number from 0 .* got -1"),
        (lambda d: d.configure(0, settings.CollectiveTable([1])), r"CollectiveRule\(...\), got 1"),
        (lambda d: d.add(actions.Save(0, "disk")), "one of 'memory', .* got 'disk'"),
        (lambda d: d.add(actions.Save("x")), "Save.job: expected a whole number, got 'x'"),
        (lambda d: d.add(actions.Assign(0, [0, "a"])), "Assign.gpus: .* got 'a'"),
        (lambda d: d.add(actions.Save(0), at_step=-1), "at_step: .* got -1"),
        (lambda d: d.add(actions.Save(0), why=3), "why: expected a text, got 3"),
        (lambda d: d.wake(float("nan")), "wake.*: expected seconds, got nan"),
    ],
)
def test_what_cannot_be_decided_is_said_at_its_place(wrong, said):
    class Wrong(orrery.Policy):
        def needs(self):
            return orrery.Needs(actions=actions.KINDS, settings=settings.KINDS)

        def observe(self, seen, decisions):
            wrong(decisions)

    with pytest.raises((TypeError, ValueError), match=said) as caught:
        orrery.simulate(STRAGGLER, policy=Wrong(), run__steps=3)
    assert "incompatible function arguments" not in str(caught.value)
    assert "observe" in [entry.name for entry in caught.traceback]
