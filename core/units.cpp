#include "core/units.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace orrery {
namespace {

struct Unit {
  std::string_view name;
  Dimension dimension;
  double factor;  ///< SI base units in this unit
};

// Sorted by dimension, then size: format_quantity() uses the largest `shown` unit that fits.
constexpr double kKi = 1024.0;
constexpr std::array kUnits = {
    Unit{"ns", Dimension::time, 1e-9}, Unit{"us", Dimension::time, 1e-6},
    Unit{"ms", Dimension::time, 1e-3}, Unit{"s", Dimension::time, 1.0},
    Unit{"min", Dimension::time, 60.0}, Unit{"h", Dimension::time, 3600.0},
    Unit{"d", Dimension::time, 86400.0},
    Unit{"B", Dimension::data, 1.0}, Unit{"kB", Dimension::data, 1e3},
    Unit{"KiB", Dimension::data, kKi}, Unit{"MB", Dimension::data, 1e6},
    Unit{"MiB", Dimension::data, kKi * kKi}, Unit{"GB", Dimension::data, 1e9},
    Unit{"GiB", Dimension::data, kKi * kKi * kKi}, Unit{"TB", Dimension::data, 1e12},
    Unit{"TiB", Dimension::data, kKi * kKi * kKi * kKi},
    Unit{"kbps", Dimension::data_rate, 125.0}, Unit{"Mbps", Dimension::data_rate, 1.25e5},
    Unit{"Gbps", Dimension::data_rate, 1.25e8}, Unit{"Tbps", Dimension::data_rate, 1.25e11},
    Unit{"B/s", Dimension::data_rate, 1.0}, Unit{"kB/s", Dimension::data_rate, 1e3},
    Unit{"MB/s", Dimension::data_rate, 1e6}, Unit{"GB/s", Dimension::data_rate, 1e9},
    Unit{"TB/s", Dimension::data_rate, 1e12},
    Unit{"FLOP/s", Dimension::flop_rate, 1.0}, Unit{"GFLOP/s", Dimension::flop_rate, 1e9},
    Unit{"TFLOP/s", Dimension::flop_rate, 1e12}, Unit{"PFLOP/s", Dimension::flop_rate, 1e15},
    Unit{"mW", Dimension::power, 1e-3}, Unit{"W", Dimension::power, 1.0},
    Unit{"kW", Dimension::power, 1e3}, Unit{"MW", Dimension::power, 1e6},
    Unit{"USD", Dimension::money, 1.0},
    Unit{"USD/h", Dimension::money_rate, 1.0 / 3600.0},
    Unit{"%", Dimension::share, 0.01},
};

bool shown(std::string_view name) {
  return name.find('i') == std::string_view::npos && !name.ends_with("bps") && name != "d" &&
         name != "h" && name != "min";
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Dimension dimension) {
  double number = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (dimension == Dimension::none) {
    return unit.empty() ? std::optional(number) : std::nullopt;
  }
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Unit& known : kUnits) {
    if (known.dimension == dimension && known.name == unit) {
      const double si_value = number * known.factor;
      return std::isfinite(si_value) ? std::optional(si_value) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string_view example_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::none: return "1.5";
    case Dimension::time: return "50 ms";
    case Dimension::data: return "80 GiB";
    case Dimension::data_rate: return "400 Gbps";
    case Dimension::flop_rate: return "989 TFLOP/s";
    case Dimension::power: return "700 W";
    case Dimension::money: return "30000 USD";
    case Dimension::money_rate: return "2.5 USD/h";
    case Dimension::share: return "30%";
  }
  return "";
}

std::string format_quantity(double si_value, Dimension dimension) {
  if (dimension == Dimension::none) return fmt::format("{:.3g}", si_value);
  if (dimension == Dimension::share) return fmt::format("{:.3g}%", 100 * si_value);
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension || !shown(unit.name)) continue;
    if (best == nullptr || std::abs(si_value) >= unit.factor) best = &unit;
  }
  const double scaled = si_value / best->factor;
  const double size = std::abs(scaled);
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", scaled, decimals, best->name);
}

}  // namespace orrery
