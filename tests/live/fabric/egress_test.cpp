#include "live/fabric/egress.hpp"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

void send(Egress& egress, std::size_t bytes) {
  Egress::Turn turn(egress, bytes);
  turn.mark_sent();
}

TEST(Egress, CountsWhatIsSentAndOnlyThat) {
  Egress egress;
  send(egress, 1000);
  { const Egress::Turn given_up(egress, 500); }
  send(egress, 20);
  EXPECT_EQ(egress.bytes(), 1020u);
}

TEST(Egress, ASlowNicPassesOnWhatItIsGivenOneAfterTheOther) {
  Egress egress;
  egress.set_rate(1e6);
  const auto start = Clock::now();
  for (int i = 0; i < 3; ++i) send(egress, 10'000);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(30));
  EXPECT_GE(egress.seconds(), 0.03);
}

TEST(Egress, AClosedOneLetsNobodyWait) {
  Egress egress;
  egress.set_rate(1e-6);  // a million seconds a byte
  const std::jthread closer([&egress] { egress.close(); });
  send(egress, 1);
  EXPECT_EQ(egress.bytes(), 1u);
}

}  // namespace
}  // namespace orrery::live
