// Dated table of prices: instances, servers and the carbon of grids, each row with its source
// (traces/catalog/prices.csv). Called by `orrery plan`, `orrery list` and orrery.prices().
// Thread-safe: no state between calls.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"

namespace orrery {

/// Kinds of rows, with their units: instance (USD/h for all its GPUs), purchase (USD for a server)
/// and grid (grams of carbon dioxide for a kilowatt-hour).
enum class PriceKind : std::uint8_t { instance, purchase, grid };
constexpr std::array<std::string_view, 3> names_of(PriceKind) {
  return {"instance", "purchase", "grid"};
}
/// Returns the unit of a kind, "USD/h" for instances.
std::string_view unit_of(PriceKind kind);

/// Row of the table.
struct PriceRow {
  PriceKind kind = PriceKind::instance;
  std::string name, gpu;   ///< GPU of the catalogue; empty for grids
  std::uint32_t gpus = 0;  ///< 0 for grids
  double value = 0;        ///< above 0, in unit_of(kind)
  std::string date, source;
};

/// Returns the shipped table; with a file (CSV, the same columns), the rows of the file first,
/// which replace shipped ones of the same kind and name. Throws bad_input at a missing column,
/// another kind or unit, a value that is no number above 0, and for an unreadable file.
std::vector<PriceRow> price_table(const std::string& file = {});

/// Returns the row of a kind and name. Throws a usage Error that names `option`, the known names
/// and the nearest one.
const PriceRow& price_named(const std::vector<PriceRow>& table, PriceKind kind,
                            const std::string& name, const char* option);

/// Returns a sentence for lists of assumptions, for example "instance nebius-h100: 23.6 USD/h on
/// 2025-12-31 (on demand)".
std::string words_of(const PriceRow& row);

}  // namespace orrery
