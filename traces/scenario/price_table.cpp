#include "traces/scenario/price_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv_table.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view prices_csv;
}

namespace {

constexpr std::uint64_t kMostGpus = 1024;

double value_of(const CsvTable& table) {
  const std::string_view text = table.text("value");
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = problem == std::errc() && stop == text.data() + text.size();
  if (whole && value > 0 && std::isfinite(value)) return value;
  table.fail_at("value",
                fmt::format("expected a value above 0, found '{}'", shown(std::string(text))));
}

PriceRow row_of(const CsvTable& table) {
  PriceRow row;
  const auto kind = find_named<PriceKind>(table.text("kind"));
  if (!kind || table.text("unit") != unit_of(*kind)) {
    table.fail_at(kind ? "unit" : "kind",
                  fmt::format("expected instance in USD/h, purchase in USD or grid in g/kWh, found "
                              "'{}' in '{}'",
                              shown(std::string(table.text("kind"))),
                              shown(std::string(table.text("unit")))));
  }
  row.kind = *kind;
  row.name = table.text("name");
  row.value = value_of(table);
  row.date = table.text("date");
  row.source = table.text("source");
  if (row.kind == PriceKind::grid) return row;
  row.gpu = table.text("gpu");
  row.gpus = static_cast<std::uint32_t>(table.number("gpus", kMostGpus));
  if (row.gpus == 0) table.fail_at("gpus", "expected at least one GPU, found 0");
  return row;
}

std::vector<PriceRow> rows_of(const std::string& path, std::string_view text) {
  CsvTable table(path, text, "prices",
                 {"kind", "name", "gpu", "gpus", "value", "unit", "date", "source"});
  std::vector<PriceRow> rows;
  while (table.next()) rows.push_back(row_of(table));
  return rows;
}

}  // namespace

std::string_view unit_of(PriceKind kind) {
  switch (kind) {
    case PriceKind::instance: return "USD/h";
    case PriceKind::purchase: return "USD";
    case PriceKind::grid: return "g/kWh";
  }
  return {};
}

std::vector<PriceRow> price_table(const std::string& file) {
  std::vector<PriceRow> rows;
  if (!file.empty()) rows = rows_of(file, read_packed_text(file));
  const std::size_t own = rows.size();
  for (PriceRow& shipped : rows_of("traces/catalog/prices.csv", embedded::prices_csv)) {
    const bool replaced = std::any_of(
        rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(own), [&](const PriceRow& each) {
          return each.kind == shipped.kind && each.name == shipped.name;
        });
    if (!replaced) rows.push_back(std::move(shipped));
  }
  return rows;
}

const PriceRow& price_named(const std::vector<PriceRow>& table, PriceKind kind,
                            const std::string& name, const char* option) {
  std::vector<std::string> known;
  for (const PriceRow& each : table) {
    if (each.kind != kind) continue;
    if (each.name == name) return each;
    known.push_back(each.name);
  }
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected one of {}, found '{}'{}", option, fmt::join(known, ", "),
                          name, did_you_mean(name, known)));
}

std::string words_of(const PriceRow& row) {
  return fmt::format("{} {}: {:g} {} on {} ({})", name_of(row.kind), row.name, row.value,
                     unit_of(row.kind), row.date, row.source);
}

}  // namespace orrery
