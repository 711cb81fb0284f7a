#include "policies/placement/placer.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/placement/free_pool.hpp"

namespace orrery {
namespace {

TEST(Placer, EveryNameMakesItsPlacer) {
  for (const std::string& name : placer_names()) EXPECT_EQ(make_placer(name)->name(), name);
  try {
    make_placer("consolidate");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("consolidated"), std::string::npos);
  }
}

TEST(FreeGpus, APassRemembersWhatItGaveAway) {
  FreePool pool(2, 4);
  GpuRuns out;
  pool.free().take(1, 2, out);
  pool.free().take(1, 1, out);
  EXPECT_EQ(out, (GpuRuns{{4}, {5}, {6}}));
  EXPECT_EQ(pool.free().in_node(1), 1u);
  EXPECT_EQ(pool.free().total(), 5u);
  pool.free().refresh(pool.state());  // nothing came true: all is free again
  EXPECT_EQ(pool.free().total(), 8u);
  out.clear();
  pool.free().take(1, 1, out);
  EXPECT_EQ(out, GpuRuns::range({4}, 1));
}

TEST(FreeGpus, TakingMoreThanThereIsIsADefect) {
  FreePool pool(1, 4);
  GpuRuns out;
  EXPECT_THROW(pool.free().take(0, 5, out), Error);
}

}  // namespace
}  // namespace orrery
