"""Properties of the bus that are fixed at creation, and the cost of zones: texts and numbers of the templates compared
with the code.
"""

from __future__ import annotations

import json
import re

from benchmarks.scale.cost import fixed_a_month
from emulator.topology import config
from shared.core.jobs.routing import EVENTS_TOPIC
from shared.settings import SETTINGS
from tests.jobs import ROOT

BICEP = ROOT / "infra" / "bicep"
TOPOLOGY = json.loads((BICEP / "topology.json").read_text())
#: triggers of one scale group each; every other function is a separate group
GROUPS = {"httpTrigger": "http", "orchestrationTrigger": "durable", "activityTrigger": "durable"}


def minutes(duration: str) -> int:
    return int(re.fullmatch(r"PT(\d+)M", duration)[1])  # type: ignore[index]


def test_a_publish_that_is_tried_again_is_dropped_by_the_bus() -> None:
    """The window of duplicate detection outlasts every wait of the publish backoff; it is fixed at creation (R36)."""
    [backoffs] = [each for each in SETTINGS if each.name == "LUCIUS_DISPATCH_BACKOFF_SECONDS"]
    waits = sum(map(float, str(backoffs.default).split(",")))
    assert minutes(TOPOLOGY["directives"]["duplicateDetectionWindow"]) * 60 > 2 * waits


def test_expired_directives_do_not_fill_a_topic() -> None:
    """They are not kept as dead letters, and a topic has the largest size of the Standard tier."""
    assert TOPOLOGY["directives"]["deadLetteringOnMessageExpiration"] is False
    sizes = [TOPOLOGY[part]["maxSizeInMegabytes"] for part in ("directives", "replies", "events")]
    assert sizes == [5120, 5120, 5120]


def test_the_topic_of_public_events_drops_repetitions_and_what_is_old() -> None:
    """Without a reader no dead letter remains; the code sends to the topic that the template creates."""
    events = TOPOLOGY["events"]
    assert events == {
        "topic": EVENTS_TOPIC,
        "duplicateDetectionWindow": "PT5M",
        "maxSizeInMegabytes": 5120,
        "defaultMessageTimeToLive": "P2D",
    }
    topic = config(TOPOLOGY)["UserConfig"]["Namespaces"][0]["Topics"][-1]
    assert (topic["Name"], topic["Properties"]["DefaultMessageTimeToLive"]) == (EVENTS_TOPIC, "PT1H")


def test_the_emulators_configuration_keeps_its_bound() -> None:
    """Microsoft's Service Bus emulator accepts a window of at most five minutes; shorter ones stay."""

    def window(deployed: str) -> str:
        directives = TOPOLOGY["directives"] | {"duplicateDetectionWindow": deployed}
        topic = config(TOPOLOGY | {"directives": directives})["UserConfig"]["Namespaces"][0]["Topics"][0]
        return str(topic["Properties"]["DuplicateDetectionHistoryTimeWindow"])

    assert (window("PT30M"), window("PT3M")) == ("PT5M", "PT3M")


def test_no_instance_is_kept_for_a_function_that_is_not_there() -> None:
    """With zone redundancy two instances of each group are kept, for any `scale`: so a function that does not always
    exist has a condition, the app's own.
    """
    modules = (BICEP / "modules" / "function-app.bicep").read_text()
    conditions = dict(re.findall(r"name: 'function:(tell|deliver)',?\s+instanceCount: (.+?) \?", modules))
    assert conditions == {"tell": "events", "deliver": "events && webhooks"}
    compute = (BICEP / "compute.bicep").read_text()
    [app] = re.findall(r"^module functionApp .*?^}$", compute, re.MULTILINE | re.DOTALL)
    assert "    events: (tuning.?LUCIUS_EVENTS ?? 'feed') != 'off'\n    webhooks: webhooks\n" in app


def test_the_parameter_file_has_the_price_of_zones() -> None:
    """Two instances always ready of every scale group, by the functions that there are."""
    functions = json.loads((ROOT / "tests" / "promised_names.json").read_text())["functions"]
    triggers = [re.fullmatch(r"(\w+) \((\w+)\)", each) for each in functions]
    groups = {GROUPS.get(each[2], f"function:{each[1]}") for each in triggers if each}
    # a group of deployments with webhooks
    groups -= {"function:deliver"}
    # one reads all replies, unless each lane has its own
    lanes = {each for each in groups if each.startswith("function:reply_p")}
    assert len(lanes) == TOPOLOGY["lanes"]
    groups = groups - lanes | {"function:replies"}
    month = 2 * len(groups) * fixed_a_month()["Functions: an always ready instance of 2 GB"]
    sentence = f"{len(groups)} groups, {2 * len(groups)} instances, about {month:.0f} USD"
    for path in (BICEP / "prod.bicepparam", ROOT / "docs" / "guides" / "deploy.md"):
        assert sentence in " ".join(path.read_text().replace("//", "").split()), path
    prod = json.loads((BICEP / "snapshots" / "prod.json").read_text())
    [ready] = [
        each["properties"]["functionAppConfig"]["scaleAndConcurrency"]["alwaysReady"]
        for each in prod
        if each["type"] == "Microsoft.Web/sites"
    ]
    assert {each["name"]: each["instanceCount"] for each in ready} == dict.fromkeys(groups, 2)
