#include "sim/estimates/predict/layouts.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

Cluster h100(std::uint32_t nodes, double memory = 0) {
  Topology topology;
  topology.set_preset("dgx-h100");
  topology.set_nodes(nodes);
  resolve(topology, {});
  for (GpuSpec& gpu : *topology.mutable_gpus()) {
    if (memory > 0) gpu.set_memory(memory);
  }
  return build_cluster(topology, {});
}

Job job_of(std::uint32_t layers, std::uint32_t hidden) {
  Job job = small_job(1, 1, 1, 64);
  job.mutable_model()->set_layers(layers);
  job.mutable_model()->set_hidden(hidden);
  job.mutable_model()->set_feed_forward(4 * hidden);
  job.set_bucket(256 * kMiB);
  return job;
}

TEST(Layouts, AreRankedAndPricedAsEachAlone) {
  const Job job = job_of(16, 4096);
  const Cluster cluster = h100(2);
  const LayoutSearch search = search_layouts(job, cluster);
  ASSERT_GT(search.fitting, 20u);
  for (std::size_t i = 0; i < search.fitting; ++i) {
    const PricedLayout& each = search.layouts[i];
    EXPECT_EQ(each.estimate.step_s, estimate_step(laid_out(job, each.choice), cluster).step_s);
    EXPECT_LT(each.interval.p10_s, each.estimate.step_s);
    EXPECT_GT(each.interval.p90_s, each.estimate.step_s);
    if (i > 0) {
      EXPECT_GE(each.estimate.step_s, search.layouts[i - 1].estimate.step_s);
    }
  }
}

TEST(Layouts, WhatDoesNotFitIsNotPricedAndSaysWhatWould) {
  const Job job = job_of(32, 8192);
  const LayoutSearch search = search_layouts(job, h100(1, 40e9));
  ASSERT_LT(search.fitting, search.layouts.size());
  const PricedLayout& least = search.layouts[search.fitting];
  EXPECT_EQ(least.status, PricedLayout::Status::out_of_memory);
  EXPECT_GT(least.estimate.memory.total().value, 40e9);
  EXPECT_EQ(least.estimate.step_s, 0);
  EXPECT_NE(least.reason.find("would fit with "), std::string::npos) << least.reason;
}

TEST(Layouts, TheFirstOneSaysWhyItIsAheadOfTheSecond) {
  const LayoutSearch search = search_layouts(job_of(16, 4096), h100(2));
  EXPECT_NE(search.why.find("ahead of " + words_of(search.layouts[1].choice)), std::string::npos)
      << search.why;
  EXPECT_TRUE(search.why.find(" s less ") != std::string::npos ||
              search.why.find("the same") != std::string::npos)
      << search.why;
}

TEST(Layouts, TablesHaveARowForEach) {
  const LayoutSearch search = search_layouts(job_of(16, 4096), h100(1));
  const std::string csv = layouts_csv(search, 0);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'),
            static_cast<std::ptrdiff_t>(search.layouts.size()) + 1);
  EXPECT_TRUE(csv.starts_with("rank,tensor,context,pipeline,data,chunks,expert,micro_batch,"));
  const std::string json = layouts_json(search, {"stack nemo"}, 3);
  EXPECT_NE(json.find("\"rank\": 3"), std::string::npos);
  EXPECT_EQ(json.find("\"rank\": 4"), std::string::npos);
  EXPECT_NE(json.find("\"stack nemo\""), std::string::npos);
}

}  // namespace
}  // namespace orrery::estimates
