#include "traces/workload/stacks.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

TEST(Stacks, TheGenericOneChangesNothing) {
  const SoftwareStack& generic = software_stack("generic");
  EXPECT_EQ(generic.gemm(), 1);
  EXPECT_EQ(generic.network(), 1);
  EXPECT_EQ(generic.layer_gap(), 0);
}

TEST(Stacks, NamesAreThereOnce) {
  const std::vector<std::string> names = stack_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(Stacks, WhatAStackSaysOfAGpu) {
  SoftwareStack stack;
  StackOnGpu& on = *stack.add_on();
  on.add_gpus("H100");
  on.add_gpus("H200");
  EXPECT_EQ(stack_on_gpu(stack, "H200"), &on);
  EXPECT_EQ(stack_on_gpu(stack, "A100-80GB"), nullptr);
}

TEST(Stacks, SupportOfARunClass) {
  const auto support = [](const char* stack, const char* gpu, const char* of) {
    return support_of(software_stack(stack), gpu, {}, of);
  };
  EXPECT_EQ(support("megatron-lm-2022", "A100-80GB", "dense 16"), StackSupport::measured);
  EXPECT_EQ(support("megatron-lm-2022", "A100-80GB", "experts 16"), StackSupport::between);
  EXPECT_EQ(support("megatron-lm-2022", "B200", "dense 16"), StackSupport::between)
      << "B200 has runs under other stacks";
  EXPECT_EQ(support("generic", "H100", "dense 16"), StackSupport::transferred);
  const SoftwareStack& known = software_stack("nemo");
  EXPECT_EQ(support_of(known, "abacus", "abacus", "dense 16"), StackSupport::transferred);
  EXPECT_EQ(support_of(known, "own", "H100", "dense 16"), StackSupport::measured) << "by family";
}

TEST(Stacks, AreThoseOfTheFileWithDefaults) {
  StackCatalog file;
  load_yaml_file(std::string(ORRERY_SOURCE_DIR) + "/traces/catalog/stacks.yaml", file);
  EXPECT_NE(stack_catalog().SerializeAsString(), file.SerializeAsString());
  fill_defaults(file);
  EXPECT_EQ(stack_catalog().SerializeAsString(), file.SerializeAsString());
}

TEST(Stacks, EveryGpuOfAStackIsInTheCatalogue) {
  const std::vector<std::string> known = gpu_names();
  for (const SoftwareStack& stack : stack_catalog().stacks()) {
    for (const StackOnGpu& on : stack.on()) {
      for (const std::string& gpu : on.gpus()) {
        EXPECT_NE(std::find(known.begin(), known.end(), gpu), known.end()) << gpu;
      }
    }
  }
}

TEST(Stacks, AnUnknownOneIsRefusedWithTheNearestName) {
  try {
    software_stack("generik");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("did you mean 'generic'"), std::string::npos);
  }
}

TEST(Stacks, AJobMayBringItsOwn) {
  Job job;
  job.set_stack("generic");
  EXPECT_EQ(stack_of(job).name(), "generic");
  job.mutable_software()->set_name("mine");
  EXPECT_EQ(stack_of(job).name(), "mine");
}

}  // namespace
}  // namespace orrery
