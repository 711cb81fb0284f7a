#include "live/kubernetes/reading.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

const std::string kReading =
    R"({"leader":true,"holder":"a_7","nodes":[{"name":"n1","gpus":8,"usable":true,"rack":"r1",)"
    R"("gpu_type":"NVIDIA-H100"}],)"
    R"("gangs":[{"id":"ml/llama","uid":"u","name":"lla|ma","state":"placing",)"
    R"("managed":true,"submitted_s":100,"limit_s":3600,"queue":"team",)"
    R"("pods":4,"pods_per_node":2,"gpus_per_pod":4,)"
    R"("nodes":["n1","n1","n2","n2"],"one_rack":true}],"problems":["ml/x: broken"],)"
    R"("version":7,"full":true,"gone":[]})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kReading;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& message) {
  try {
    parse_reading(message);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(KubeReading, NodesAndGangsAreRead) {
  const KubeReading reading = parse_reading(kReading);
  EXPECT_TRUE(reading.is_leader);
  EXPECT_EQ(reading.holder, "a_7");
  ASSERT_EQ(reading.nodes.size(), 1u);
  EXPECT_EQ(reading.nodes[0].rack, "r1");
  EXPECT_EQ(reading.nodes[0].gpu_type, "NVIDIA-H100");
  ASSERT_EQ(reading.gangs.size(), 1u);
  EXPECT_EQ(reading.gangs[0].name, "lla|ma");
  EXPECT_EQ(reading.gangs[0].state, GangState::placing);
  EXPECT_EQ(reading.gangs[0].requested_nodes(), 2u);
  EXPECT_EQ(reading.gangs[0].gpus_per_node(), 8u);
  EXPECT_TRUE(reading.gangs[0].needs_rack);
  EXPECT_EQ(reading.problems.size(), 1u);
  EXPECT_EQ(reading.version, 7u);
}

TEST(KubeReading, AWrongFieldIsNamed) {
  EXPECT_NE(error_of(with("\"pods\":4", "\"pods\":0")).find("pods: expected a whole number"),
            std::string::npos);
  EXPECT_NE(error_of(with("placing", "placcing")).find("state"), std::string::npos);
  EXPECT_NE(error_of(with("\"usable\":true", "\"usable\":1")).find("usable"), std::string::npos);
  EXPECT_NE(error_of(with("\"limit_s\":3600", "\"limit_s\":-1")).find("limit_s"),
            std::string::npos);
  EXPECT_NE(error_of(kReading.substr(0, 200)).find("leader"), std::string::npos);
  EXPECT_EQ(error_of(R"({"failed":"GET /api/v1/pods: 403"})"), "GET /api/v1/pods: 403");
}

TEST(KubeReading, RacksHaveEqualSizes) {
  std::vector<KubeNode> nodes(4);
  const char* racks[] = {"r2", "r1", "r2", ""};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].name = std::string("n") + static_cast<char>('1' + i);
    nodes[i].gpus = 8;
    nodes[i].rack = racks[i];
  }
  std::uint32_t per_rack = 0;
  std::string places;
  for (const QueueNode& node : nodes_by_rack(nodes, 4, per_rack)) places += node.name + ",";
  EXPECT_EQ(places, "n2,,n1,n3,n4,,");
  EXPECT_EQ(per_rack, 2u);
  EXPECT_EQ(nodes_by_rack(nodes, 5, per_rack).size(), 12u) << "four racks of three places";
  EXPECT_EQ(per_rack, 3u);
  nodes.resize(1);
  EXPECT_EQ(nodes_by_rack(nodes, 1, per_rack).size(), 1u);
  EXPECT_EQ(per_rack, 0u);
  EXPECT_EQ(nodes_by_rack(nodes, 2, per_rack).size(), 4u) << "room for another rack";
  EXPECT_EQ(per_rack, 2u);
  nodes[0].rack.clear();
  EXPECT_EQ(nodes_by_rack(nodes, 3, per_rack).size(), 3u);
  EXPECT_EQ(per_rack, 0u);
}

TEST(KubeReading, ChangesAreAppliedToTheStateBefore) {
  KubeState state;
  KubeReading changes;
  changes.is_full = false;
  EXPECT_THROW(state.apply(changes), Error);
  KubeReading first = parse_reading(kReading);
  KubeGang other = first.gangs[0];
  other.id = "ml/b";
  first.gangs.push_back(other);
  EXPECT_EQ(state.apply(first).gangs.size(), 2u);
  EXPECT_EQ(state.version(), 7u);
  changes.version = 8;
  changes.has_nodes = false;
  changes.gone = {"ml/llama"};
  other.state = GangState::completed;
  changes.gangs = {other};
  const KubeReading second = state.apply(changes);
  ASSERT_EQ(second.gangs.size(), 1u);
  EXPECT_EQ(second.gangs[0].state, GangState::completed);
  EXPECT_EQ(second.nodes.size(), 1u);
  EXPECT_TRUE(second.is_full);
  first.gangs.clear();
  EXPECT_TRUE(state.apply(first).gangs.empty());
}

}  // namespace
}  // namespace orrery::live
