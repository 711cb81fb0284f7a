#include "live/programs/group_book.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "live/group/messages.hpp"

namespace orrery::live {

std::string GroupBook::record_message(const Fields& fields) {
  if (kind_of(fields) == MessageKind::sharded) return record_uncarried(fields.at(1), fields.at(2));
  return record_group(fields.at(1), fields.at(2), std::stoull(fields.at(3)));
}

std::string GroupBook::record_group(const std::string& key, const std::string& name,
                                    std::size_t ranks) {
  if (ranks < 2) return "";
  const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const GroupKind& kind) {
    return kind.name == name && kind.ranks == ranks;
  });
  const auto at = static_cast<std::size_t>(known - kinds_.begin());
  const bool is_new = known == kinds_.end();
  if (is_new)
    kinds_.push_back({.name = name, .ranks = ranks, .keys = {}, .uncarried_operation = {}});
  kind_of_key_[key] = at;
  kinds_[at].keys.insert(key.substr(key.find(':') + 1));
  if (!is_new) return "";
  if (at > 0) return fmt::format("group {} ({} ranks): as {}", name, ranks, kinds_.front().name);
  return fmt::format(
      "group {} ({} ranks): carries all-reduce, broadcast, all-gather, gather and barrier through "
      "a loss, not reduce-scatter, all-to-all, send and receive: after one of these a loss ends "
      "its other ranks",
      name, ranks);
}

std::string GroupBook::record_uncarried(const std::string& key, const std::string& operation) {
  const auto found = kind_of_key_.find(key);
  if (found == kind_of_key_.end()) return "";
  GroupKind& kind = kinds_[found->second];
  if (!kind.uncarried_operation.empty()) return "";
  kind.uncarried_operation = operation;
  return fmt::format("group {} ({} ranks): used for {}, so the loss of a rank ends its other ranks",
                     kind.name, kind.ranks, operation);
}

std::string GroupBook::drain_tier_line(std::size_t world, bool has_restarts) {
  for (const GroupKind& kind : kinds_) {
    if (kind.ranks < world || kind.uncarried_operation.empty()) continue;
    if (std::exchange(has_no_survivors_, true)) return "";
    has_survivors_ = true;
    return fmt::format(
        "{}: no loss may interrupt {} of all ranks; {}",
        has_restarts ? "tier T1 in place of T0" : "no tier", kind.uncarried_operation,
        has_restarts ? "all ranks start again and resume from the program's checkpoint or snapshot"
                     : "a loss ends the run with exit code 4 (with --restart N all ranks would "
                       "start again: tier T1)");
  }
  if (kinds_.empty() || std::exchange(has_survivors_, true)) return "";
  return "tier T0: the other ranks complete or repeat the operation that a loss interrupts, and go "
         "on";
}

}  // namespace orrery::live
