#include "core/units.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <type_traits>

#include "core/random.hpp"

namespace orrery {
namespace {

TEST(Quantity, DimensionsMultiplyAndCancel) {
  static_assert(std::is_same_v<decltype(Bytes{1} / Seconds{1}), BytesPerSecond>);
  static_assert(std::is_same_v<decltype(Watts{1} * Seconds{1}), Joules>);
  static_assert(std::is_same_v<decltype(Flop{1} / FlopPerSecond{1}), Seconds>);
  static_assert(!std::is_convertible_v<Bytes, Seconds>);
  EXPECT_EQ((Bytes{6} / BytesPerSecond{3}).value, 2);
  EXPECT_EQ((Seconds{1} + Seconds{2} - Seconds{0.5}).value, 2.5);
  Joules sum{1};
  sum += Watts{2} * Seconds{3};
  EXPECT_EQ(sum.value, 7);
  EXPECT_LT(Bytes{1}, 2.0 * Bytes{1});
}

struct Written {
  const char* text;
  Dimension dimension;
  double value;
};

constexpr std::array kGood = {
    Written{"50 ms", Dimension::time, 0.05},
    Written{"50ms", Dimension::time, 0.05},
    Written{"24 d", Dimension::time, 24 * 86400.0},
    Written{"1.5 h", Dimension::time, 5400},
    Written{"1e-3 s", Dimension::time, 0.001},
    Written{"-2 s", Dimension::time, -2},
    Written{"80 GiB", Dimension::data, 80.0 * 1024 * 1024 * 1024},
    Written{"1 kB", Dimension::data, 1000},
    Written{"400 Gbps", Dimension::data_rate, 50e9},
    Written{"900 GB/s", Dimension::data_rate, 900e9},
    Written{"3.35 TB/s", Dimension::data_rate, 3.35e12},
    Written{"989 TFLOP/s", Dimension::flop_rate, 989e12},
    Written{"700 W", Dimension::power, 700},
    Written{"30000 USD", Dimension::money, 30000},
    Written{"3.6 USD/h", Dimension::money_rate, 0.001},
    Written{"0.25", Dimension::none, 0.25},
    Written{"30%", Dimension::share, 0.3},
    Written{"0.5 %", Dimension::share, 0.005},
};

TEST(ParseQuantity, GivesSiBaseUnits) {
  for (const Written& written : kGood) {
    const auto parsed = parse_quantity(written.text, written.dimension);
    ASSERT_TRUE(parsed) << written.text;
    EXPECT_DOUBLE_EQ(*parsed, written.value) << written.text;
  }
}

TEST(ParseQuantity, RefusesWhatIsNotOfTheDimension) {
  for (const char* text : {"", "50", "ms", "50 MS", "50 GiB", "50  ms", " 50 ms", "50 ms ",
                           "50,5 ms", "nan s", "inf s", "1e999 s", "1e308 d", "0x10 s", "+5 s"}) {
    EXPECT_FALSE(parse_quantity(text, Dimension::time)) << text;
  }
  EXPECT_FALSE(parse_quantity("5 s", Dimension::none));
  EXPECT_FALSE(parse_quantity("400 Gb/s", Dimension::data_rate));
  EXPECT_FALSE(parse_quantity("400 Gbps", Dimension::data));
}

TEST(ParseQuantity, ExamplesForMessagesParse) {
  for (int i = 0; i <= static_cast<int>(Dimension::money_rate); ++i) {
    const auto dimension = static_cast<Dimension>(i);
    EXPECT_TRUE(parse_quantity(example_of(dimension), dimension)) << example_of(dimension);
  }
}

TEST(ParseQuantity, SurvivesAnyBytes) {
  Rng rng(7);
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text = "400 Gbps";
    const std::size_t edits = 1 + rng.below(3);
    for (std::size_t e = 0; e < edits; ++e) {
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    }
    const auto parsed = parse_quantity(text, Dimension::data_rate);
    if (parsed) ++accepted;
    EXPECT_TRUE(!parsed || std::isfinite(*parsed)) << text;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 50'000);
}

TEST(FormatQuantity, HasThreeDigitsAndAReadableUnit) {
  EXPECT_EQ(format_quantity(5e10, Dimension::data_rate), "50.0 GB/s");
  EXPECT_EQ(format_quantity(0.0123, Dimension::time), "12.3 ms");
  EXPECT_EQ(format_quantity(86400, Dimension::time), "86400 s");
  EXPECT_EQ(format_quantity(989.4e12, Dimension::flop_rate), "989 TFLOP/s");
  EXPECT_EQ(format_quantity(1.5e6, Dimension::power), "1.50 MW");
  EXPECT_EQ(format_quantity(0, Dimension::data), "0.00 B");
  EXPECT_EQ(format_quantity(0.125, Dimension::share), "12.5%");
  EXPECT_EQ(format_quantity(-0.05, Dimension::time), "-50.0 ms");
}

TEST(FormatQuantity, ReadsBackWithinItsDigits) {
  Rng rng(11);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::pow(10.0, rng.uniform() * 14 - 2);
    const std::string text = format_quantity(value, Dimension::data_rate);
    const auto back = parse_quantity(text, Dimension::data_rate);
    ASSERT_TRUE(back) << text;
    EXPECT_NEAR(*back, value, value * 0.006 + 0.006) << text;
  }
}

}  // namespace
}  // namespace orrery
