#include "traces/published/table_defaults.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"
#include "traces/published/published_run.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;

bool says(const TableRow& row, const std::string& what) {
  return std::find(row.defaulted.begin(), row.defaulted.end(), what) != row.defaulted.end();
}

TEST(TableDefaults, AModelOfTheCatalogueIsEnough) {
  for (const std::string& name : model_names()) {
    const TableRow row = table_row(Cells{{"model", name}}, 1);
    const PublishedRun run = published_run(row);
    EXPECT_EQ(run.refusal, "") << name;
    EXPECT_GT(run.assumed.size(), 4u) << "what was taken is said";
    EXPECT_EQ(job_problems(run.job).size(), 0u) << name;
  }
}

TEST(TableDefaults, AModelOfTheCatalogueIsPricedWithItsOwnParameters) {
  for (const std::string& name : model_names()) {
    Model own;
    own.set_preset(name);
    resolve(own, {}, "model");
    const PublishedRun run = published_run(table_row(Cells{{"model", name}}, 1));
    EXPECT_NEAR(parameter_count(run.job.model()) / parameter_count(own), 1, 1e-9) << name;
  }
}

TEST(TableDefaults, GraphsOfAWholeIterationAreACompiledStep) {
  const auto compile = [](const char* graphs, const char* said) {
    return table_row(Cells{{"model", "llama3-8b"}, {"graphs", graphs}, {"compile", said}}, 1);
  };
  EXPECT_EQ(compile("full", "").compile, "1");
  EXPECT_EQ(compile("full", "0").compile, "0");
  EXPECT_EQ(compile("partial", "").compile, "");
  EXPECT_EQ(published_run(compile("some", "")).refusal,
            "graphs is 'some', expected none, partial or full");
}

TEST(TableDefaults, WhatIsSaidStays) {
  const TableRow row = table_row(Cells{{"model", "llama3-70b"}, {"n_gpus", "512"}, {"tp", "4"},
                                       {"pp", "8"}, {"gpu", "B200"}, {"gbs", "1024"},
                                       {"layers", "40"}},
                                 1);
  EXPECT_EQ(row.layers, 40u);
  EXPECT_EQ(row.hidden, 8192u);
  EXPECT_EQ(row.gpu, "B200");
  EXPECT_FALSE(says(row, "gpu H100"));
  EXPECT_TRUE(says(row, "framework nemo"));
  EXPECT_EQ(published_run(row).job.layout().data(), 16u);
}

TEST(TableDefaults, SizesThatNobodyKnowsAreToldAtOnce) {
  const PublishedRun run = published_run(table_row(Cells{{"model", "mine"}, {"heads", "8"}}, 1));
  EXPECT_EQ(run.refusal, "'layers', 'hidden', 'ffn', 'vocab' are missing: give them, or a model of "
                         "the catalogue (orrery list models)");
}

TEST(TableDefaults, ACellThatIsEmptyIsNotKnown) {
  const TableRow row = table_row(Cells{{"model", "llama3-70b"}, {"gbs", ""}}, 1);
  EXPECT_FALSE(row.gbs.has_value());
  EXPECT_NE(published_run(row).refusal.find("'gbs' is missing"), std::string::npos);
}

TEST(TableDefaults, ABatchIsWholeMicroBatches) {
  const TableRow row = table_row(Cells{{"model", "llama3-8b"}, {"n_gpus", "96"}, {"mbs", "2"}}, 1);
  EXPECT_EQ(*row.gbs % (96 / *row.pp * 2), 0u);
  EXPECT_NEAR(*row.gbs, 512, 96);
}

}  // namespace
}  // namespace orrery
