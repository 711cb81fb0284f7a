#include "policies/run/known_names.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(KnownNames, EachKindHasNamesWithALineAboutEach) {
  for (const std::string& kind : kinds_of_names()) {
    const std::vector<KnownName> names = known_names(kind);
    EXPECT_GT(names.size(), 3u) << kind;
    for (const KnownName& each : names) {
      EXPECT_FALSE(each.name.empty()) << kind;
      EXPECT_FALSE(each.about.empty()) << each.name;
      EXPECT_EQ(each.about.find('\n'), std::string::npos) << each.name;
    }
  }
}

TEST(KnownNames, SayWhatAPlannerLooksFor) {
  const auto about = [](const char* kind, const char* name) -> std::string {
    for (const KnownName& each : known_names(kind)) {
      if (each.name == name) return each.about;
    }
    return "";
  };
  EXPECT_EQ(about("models", "llama3-70b"), "70.55 billion parameters, 80 layers, hidden 8192");
  EXPECT_EQ(about("clusters", "dgx-h100"),
            "8 H100 a node, 8 NICs of 400 Gbps, fat-tree of 32 nodes a unit");
  const std::string stack = about("stacks", "megatron-lm-2022");
  EXPECT_TRUE(stack.starts_with("factors fitted to published runs; measured on A100-40GB, "
                                "A100-80GB, A800 (dense 16); between on "))
      << stack;
  EXPECT_NE(stack.find("B200"), std::string::npos);
  EXPECT_TRUE(about("stacks", "generic").starts_with(
      "kernels as fast as when measured alone; transferred on A100-40GB, "));
  EXPECT_EQ(about("policies", "static"), "of trainings; decides nothing");
  EXPECT_NE(about("policies", "recover"), "of trainings; decides nothing");
  EXPECT_EQ(about("policies", "fifo"), "of job queues; decides Assign");
}

TEST(KnownNames, AnUnknownKindNamesTheNearest) {
  try {
    known_names("model");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(error.message().find("did you mean 'models'"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace orrery
