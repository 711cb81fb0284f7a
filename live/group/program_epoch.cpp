#include "live/group/program_epoch.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "live/group/messages.hpp"

namespace orrery::live {

std::uint64_t epoch_of_group(const ProgramEpoch& epoch, const std::vector<std::size_t>& ranks) {
  std::uint64_t newest = epoch.reset;
  for (const std::size_t rank : ranks) {
    if (rank < epoch.changed.size()) newest = std::max(newest, epoch.changed[rank]);
  }
  return newest;
}

ProgramEpoch next_epoch(const ProgramEpoch& epoch, std::vector<std::size_t> members,
                        bool is_reset) {
  ProgramEpoch next = epoch;
  ++next.number;
  if (is_reset) next.reset = next.number;
  for (std::size_t rank = 0; rank < next.changed.size(); ++rank) {
    const bool was = std::binary_search(epoch.members.begin(), epoch.members.end(), rank);
    const bool is = std::binary_search(members.begin(), members.end(), rank);
    if (was != is) next.changed[rank] = next.number;
  }
  next.members = std::move(members);
  return next;
}

std::string list_of(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (const std::size_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::vector<std::size_t> numbers_in(const std::string& list) {
  std::vector<std::size_t> numbers;
  std::istringstream parts(list);
  for (std::string each; std::getline(parts, each, ',');) numbers.push_back(std::stoull(each));
  return numbers;
}

Fields message_of(const ProgramEpoch& epoch) {
  return message_of(MessageKind::epoch,
                    {std::to_string(epoch.number), list_of(epoch.members),
                     std::to_string(epoch.reset),
                     list_of({epoch.changed.begin(), epoch.changed.end()})});
}

ProgramEpoch epoch_of(const Fields& fields) {
  const std::vector<std::size_t> changed = numbers_in(fields.at(4));
  return {.number = std::stoull(fields.at(1)),
          .members = numbers_in(fields.at(2)),
          .reset = std::stoull(fields.at(3)),
          .changed = {changed.begin(), changed.end()}};
}

}  // namespace orrery::live
