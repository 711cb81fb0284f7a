#include "traces/jobs/pod_list.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

const std::string kPods =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "a,4000,8192,1,460,,LS\n"
    "b,12000,16384,8,1000,V100M32|V100M16,LS\n"
    "c,1000,2048,0,0,,BE\n";

TEST(PodList, ReadsSharesKindsAndPodsWithoutGpus) {
  const std::vector<Pod> pods = parse_pods("p.csv", kPods);
  ASSERT_EQ(pods.size(), 3u);
  EXPECT_EQ(pods[0].cpu_milli, 4000);
  EXPECT_EQ(pods[0].all_gpu_milli(), 460u);
  EXPECT_TRUE(pods[0].models.empty());
  EXPECT_EQ(pods[1].all_gpu_milli(), 8000u);
  EXPECT_EQ(pods[1].models, (std::vector<std::string>{"V100M16", "V100M32"}));
  EXPECT_EQ(pods[2].all_gpu_milli(), 0u);
}

TEST(PodList, NodesStandByName) {
  const std::vector<NodeRecord> nodes = parse_nodes(
      "n.csv", "sn,cpu_milli,memory_mib,gpu,model\nn2,96000,393216,8,G2\nn1,32000,262144,0,\n");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].name, "n1");
  EXPECT_EQ(nodes[0].gpus, 0u);
  EXPECT_EQ(nodes[1].model, "G2");
}

std::string complaint(const std::string& text, bool pods = true) {
  try {
    pods ? void(parse_pods("t.csv", text)) : void(parse_nodes("t.csv", text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

TEST(PodList, WhatIsWrongIsNamedWithItsPlace) {
  const std::string header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  EXPECT_NE(complaint("name,cpu_milli,memory_mib,num_gpu\n").find("gpu_milli"), std::string::npos);
  EXPECT_NE(complaint(header + "a,1,1,2,500\n").find("t.csv:2:9"), std::string::npos);
  EXPECT_NE(complaint(header + "a,1,1,1,0\n").find("not 0"), std::string::npos);
  EXPECT_NE(complaint(header + "a,1,1,1,1001\n").find("at most 1000"), std::string::npos);
  EXPECT_NE(complaint(header + "a,1,1,129,1000\n").find("at most 128"), std::string::npos);
  EXPECT_NE(complaint(header + "a,x,1,1,1000\n").find("whole number"), std::string::npos);
  EXPECT_NE(complaint(header + "a,1,1\n").find("3 fields"), std::string::npos);
  EXPECT_NE(complaint(header).find("no pod that"), std::string::npos);
  EXPECT_NE(complaint("", false).find("is empty"), std::string::npos);
  EXPECT_NE(complaint("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n", false).find("no node"),
            std::string::npos);
}

}  // namespace
}  // namespace orrery
