#include "traces/workload/own_stack.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

TEST(OwnStack, ShippedStacksAreNotOwn) {
  for (const std::string& name : stack_names()) EXPECT_FALSE(is_own(software_stack(name))) << name;
  SoftwareStack stack = software_stack("nemo");
  stack.set_name("mine");
  EXPECT_FALSE(is_own(stack));
  stack.set_kin("nemo");
  EXPECT_TRUE(is_own(stack));
}

TEST(OwnStack, AFileHasOneStackOfItsOwn) {
  const TemporaryFolder folder("own-stack");
  const std::string path = folder.path_of("mine.yaml");
  const auto load = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return load_own_stack(path);
  };
  const std::string one = "stacks: [{name: mine, kin: nemo, gemm: 0.9, source: [own runs]}]";
  const SoftwareStack stack = load(one);
  EXPECT_EQ(stack.name(), "mine");
  EXPECT_DOUBLE_EQ(stack.gemm(), 0.9);
  EXPECT_DOUBLE_EQ(stack.network(), 1) << "defaults are filled in";
  EXPECT_TRUE(names_own_stack(path));
  EXPECT_FALSE(names_own_stack("nemo"));
  EXPECT_THROW(load("stacks: [{name: nemo, kin: nemo, source: [a]}]"), Error);
  EXPECT_THROW(load("stacks: [{name: mine, kin: nemmo, source: [a]}]"), Error);
  EXPECT_THROW(load("stacks: [{name: mine, kin: nemo, source: [a]}, "
                    "{name: other, kin: nemo, source: [a]}]"),
               Error);
}

}  // namespace
}  // namespace orrery
