#include "traces/published/measured_times.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

std::map<int, double> measured_times(const std::string& path, const std::string& text) {
  std::map<int, double> times;
  CsvReader rows(path, text);
  std::vector<std::string_view> cells;
  std::size_t column = 0;
  rows.next_row(cells);
  while (column < cells.size() && cells[column] != "iter_time_s") ++column;
  if (column == cells.size()) rows.fail_row("expected a column 'iter_time_s'");
  while (rows.next_row(cells)) {
    double seconds = 0;
    if (column >= cells.size()) continue;
    const std::string_view cell = cells[column];
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), seconds);
    if (error == std::errc() && end == cell.data() + cell.size() && seconds > 0) {
      times[rows.line()] = seconds;
    }
  }
  return times;
}

}  // namespace orrery
