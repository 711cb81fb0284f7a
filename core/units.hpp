// Physical quantities with their dimension in the type, and the one parser of written quantities
// ("400 Gbps", "80 GiB", "24 d"). A quantity holds its value in SI base units: seconds, bytes,
// floating-point operations, joules, dollars. Header arithmetic is constexpr; thread-safe.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

/// Physical quantity of dimension seconds^S bytes^B flop^F joule^J dollar^D. For example, Bytes
/// divided by Seconds is a BytesPerSecond.
template <int S, int B, int F, int J, int D>
struct Quantity {
  double value = 0;

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return {a.value * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return {a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return {a.value / k}; }
  constexpr Quantity& operator+=(Quantity b) { value += b.value; return *this; }
};

template <int S, int B, int F, int J, int D, int S2, int B2, int F2, int J2, int D2>
constexpr auto operator*(Quantity<S, B, F, J, D> a, Quantity<S2, B2, F2, J2, D2> b) {
  return Quantity<S + S2, B + B2, F + F2, J + J2, D + D2>{a.value * b.value};
}
template <int S, int B, int F, int J, int D, int S2, int B2, int F2, int J2, int D2>
constexpr auto operator/(Quantity<S, B, F, J, D> a, Quantity<S2, B2, F2, J2, D2> b) {
  return Quantity<S - S2, B - B2, F - F2, J - J2, D - D2>{a.value / b.value};
}

using Seconds = Quantity<1, 0, 0, 0, 0>;
using Bytes = Quantity<0, 1, 0, 0, 0>;
using Flop = Quantity<0, 0, 1, 0, 0>;
using Joules = Quantity<0, 0, 0, 1, 0>;
using Dollars = Quantity<0, 0, 0, 0, 1>;
using BytesPerSecond = Quantity<-1, 1, 0, 0, 0>;
using FlopPerSecond = Quantity<-1, 0, 1, 0, 0>;
using Watts = Quantity<-1, 0, 0, 1, 0>;
using DollarsPerSecond = Quantity<-1, 0, 0, 0, 1>;

/// Dimensions of configuration values.
enum class Dimension { none, time, data, data_rate, flop_rate, power, money, money_rate, share };

/// Returns the value of `text` ("50 ms") in SI base units; nothing if the number or the unit is not
/// of `dimension`. Bits become bytes; k, M, G, T are powers of 1000, Ki, Mi, Gi, Ti of 1024. A unit
/// is required ("50" alone is not a time), at most one space may precede it, and Dimension::none
/// has no unit. Negative numbers are accepted; an infinite number, or any other character, is not.
std::optional<double> parse_quantity(std::string_view text, Dimension dimension);

/// Returns a valid text for error messages: "50 ms" for time, "400 Gbps" for data_rate.
std::string_view example_of(Dimension dimension);

/// Returns a quantity in SI base units as a text for people, in the largest unit that does not
/// exceed the value, else in the smallest unit (times in at most s, sizes in powers of 1000, shares
/// in %), with three significant digits: more from 1,000 units on, fewer below 1 unit. For example,
/// format_quantity(5e10, Dimension::data_rate) returns "50.0 GB/s".
std::string format_quantity(double value, Dimension dimension);

}  // namespace orrery
