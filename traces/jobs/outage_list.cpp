#include "traces/jobs/outage_list.hpp"

#include <fmt/format.h>

#include "traces/files/csv_table.hpp"

namespace orrery {

std::vector<Outage> parse_outages(const std::string& path, std::string_view text,
                                  std::uint32_t nodes) {
  constexpr std::uint64_t kLatestSecond = 100ULL * 365 * 24 * 3600;
  CsvTable table(path, text, "outages", {"node", "begin_s", "end_s"});
  std::vector<Outage> outages;
  while (table.next()) {
    const Outage outage{
        .node = static_cast<std::uint32_t>(table.number("node", ~0u)),
        .begin_s = static_cast<std::int64_t>(table.number("begin_s", kLatestSecond)),
        .end_s = static_cast<std::int64_t>(table.number("end_s", kLatestSecond)),
        .planned = table.text("cause") == "maintenance"};
    if (outage.node >= nodes) {
      table.fail_at("node", fmt::format("there is no node {}: the cluster has nodes 0 to {}",
                                     outage.node, nodes - 1));
    }
    if (outage.end_s <= outage.begin_s) table.fail_at("end_s", "an outage ends after it has begun");
    outages.push_back(outage);
  }
  return outages;
}

std::vector<Outage> load_outages(const std::string& path, std::uint32_t nodes) {
  return parse_outages(path, read_packed_text(path), nodes);
}

}  // namespace orrery
