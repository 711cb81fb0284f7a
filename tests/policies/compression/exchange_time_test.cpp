#include "policies/compression/exchange_time.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(ExchangeTime, AnExchangeIsMessagesBytesAndCodes) {
  const LinkSpeed link{.latency = 1e-3, .bandwidth = 1e7};
  EXPECT_NEAR(exchange_seconds({}, 1'000'000, 4, link, {}), 6e-3 + 0.6, 1e-9);
  const CodecRule int8{.codec = Codec::int8};
  const CodecThroughput speed{.encode = 1e9, .decode = 2e9};
  EXPECT_NEAR(exchange_seconds(int8, 1'000'000, 4, link, speed),
              6e-3 + exchange_bytes(int8, 1'000'000, 4) / 1e7 + 4e6 * 1.25 / 1e9 + 8e6 / 2e9, 1e-9);
  EXPECT_EQ(exchange_seconds(int8, 1'000'000, 1, link, speed), 0);
}

}  // namespace
}  // namespace orrery
