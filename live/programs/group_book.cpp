#include "live/programs/group_book.hpp"

#include <algorithm>

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

}  // namespace orrery::live
