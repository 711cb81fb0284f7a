#include "live/programs/policies/program_collectives.hpp"

#include <unistd.h>

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "live/nccl/nccl_table.hpp"

namespace orrery::live {

ProgramCollectives::ProgramCollectives(std::string table, const std::string& reports)
    : table_(std::move(table)), receiver_(reports) {}

void ProgramCollectives::begin_attempt() {
  unlink(table_.c_str());
  receiver_.drain_reports();
  book_ = {};
  loaded_.clear();
  is_written_ = false;
}

void ProgramCollectives::read_reports() {
  for (const NcclReport& report : receiver_.drain_reports()) {
    if (const auto* opened = std::get_if<OpenReport>(&report)) {
      loaded_.insert(opened->rank);
    } else {
      book_.add_report(std::get<CollectiveReport>(report));
    }
  }
}

std::string ProgramCollectives::write_plan(const CollectiveTable& table) {
  write_tuner_file(fmt::format("{}.{}", table_, ++plans_), tuner_table_of(table));
  return fmt::format("table {}", plans_);
}

void ProgramCollectives::write_common_table(const CollectiveTable* table) {
  if (is_written_) return;
  write_tuner_file(table_, tuner_table_of(table == nullptr ? CollectiveTable{} : *table));
  is_written_ = true;
}

}  // namespace orrery::live
