// Incidents of Kubernetes events: from the warning to the job's return, with its cause.
#include "traces/failures/kubernetes_incidents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using ::testing::HasSubstr;

std::string event_of(const std::string& time, const std::string& kind, const std::string& name,
                     const std::string& reason, const std::string& type = "Warning") {
  return fmt::format(R"({{"kind": "Event", "type": "{}", "reason": "{}", "firstTimestamp": )"
                     R"("2024-01-01T{}Z", "involvedObject": {{"kind": "{}", "name": "{}", )"
                     R"("namespace": "train"}}}})",
                     type, reason, time, kind, name);
}

IncidentLog read_events(const std::vector<std::string>& events, const std::string& job = "") {
  return parse_incidents(
      "events.json",
      fmt::format("{{\"apiVersion\": \"v1\", \"items\": [\n{}\n]}}", fmt::join(events, ",\n")),
      {.job = job});
}

TEST(KubernetesIncidents, AJobIsDownFromTheWarningUntilItRuns) {
  const IncidentLog log = read_events({
      event_of("00:00:00", "PyTorchJob", "llm", "PyTorchJobRunning", "Normal"),
      event_of("10:00:00", "Node", "gpu-3", "NodeNotReady"),
      event_of("10:01:00", "PyTorchJob", "llm", "PyTorchJobRestarting"),
      event_of("10:20:00", "PyTorchJob", "llm", "PyTorchJobRunning", "Normal"),
      event_of("11:00:00", "Node", "gpu-3", "NodeReady", "Normal"),
      event_of("12:00:00", "Pod", "llm-7", "OOMKilling"),
      event_of("12:00:30", "PyTorchJob", "llm", "PyTorchJobRestarting"),
      event_of("12:03:00", "PyTorchJob", "llm", "PyTorchJobRunning", "Normal"),
      event_of("15:00:00", "PyTorchJob", "llm", "PyTorchJobRestarting"),
      event_of("15:05:00", "PyTorchJob", "llm", "PyTorchJobRunning", "Normal"),
      event_of("16:00:00", "PyTorchJob", "other", "PyTorchJobRestarting"),
  });
  ASSERT_EQ(log.incidents.size(), 3u);
  EXPECT_EQ(log.length_s, 16 * 3600);
  const Incident& node = log.incidents[0];
  EXPECT_EQ(node.cause, "NodeNotReady");
  EXPECT_EQ(node.part, FailingPart::node);
  EXPECT_EQ(log.node_names.at(node.index.value()), "gpu-3");
  EXPECT_EQ(node.detection_s, 60);
  EXPECT_EQ(node.down_s, 1200);
  EXPECT_EQ(node.repair_s, 3600);
  EXPECT_EQ(log.incidents[1].cause, "OOMKilling");
  EXPECT_EQ(log.incidents[1].part, FailingPart::job);
  EXPECT_EQ(log.incidents[1].down_s, 180);
  EXPECT_EQ(log.incidents[2].cause, "PyTorchJobRestarting") << "the warning is hours old";
}

TEST(KubernetesIncidents, MistakesAreNamedWithTheirPlaces) {
  const auto complaint = [](const auto& reading) -> std::string {
    try {
      reading();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint([] { read_events({event_of("10:00:00", "Pod", "x", "BackOff")}); }),
              HasSubstr("expected events of a training job"));
  EXPECT_THAT(complaint([] { read_events({event_of("10:00:00", "MPIJob", "x", "Running")}, "y"); }),
              HasSubstr("the job 'y', found none"));
  EXPECT_THAT(
      complaint([] { read_events({R"({"reason": "x", "involvedObject": {"kind": "Pod"}})"}); }),
      HasSubstr("events.json:2:1: error: expected an event with"));
  EXPECT_THAT(complaint([] { parse_incidents("events.json", "{\"items\": [", {}); }),
              HasSubstr("events.json:1:"));
}

}  // namespace
}  // namespace orrery
