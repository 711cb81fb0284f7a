#include "traces/published/measured_times.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(MeasuredTimes, AreTheNumbersAboveZero) {
  const std::string text = "id,iter_time_s\na,1.5\nb,\nc,-1\nd,x\ne,2e1\nf\n";
  const std::map<int, double> times = measured_times("runs.csv", text);
  EXPECT_EQ(times, (std::map<int, double>{{2, 1.5}, {6, 20.0}}));
}

TEST(MeasuredTimes, ATableWithoutTimesIsRefused) {
  EXPECT_THROW(measured_times("runs.csv", "id,model\na,b\n"), Error);
}

}  // namespace
}  // namespace orrery
