#include "live/group/sent_facts.hpp"

#include <algorithm>
#include <optional>

#include "live/group/messages.hpp"

namespace orrery::live {

void SentFacts::record_message(const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  const bool is_of_group = kind == MessageKind::group || kind == MessageKind::sharded;
  const bool is_of_run = kind == MessageKind::state || kind == MessageKind::ready ||
                         kind == MessageKind::resumed || kind == MessageKind::snapshot ||
                         kind == MessageKind::dealt;
  if (!is_of_group && !is_of_run) return;
  const std::string key = fields.at(0) + (is_of_group ? " " + fields.at(1) : "");
  const auto found = std::find_if(facts_.begin(), facts_.end(),
                                  [&key](const auto& fact) { return fact.first == key; });
  if (found == facts_.end()) {
    facts_.emplace_back(key, fields);
  } else {
    found->second = fields;
  }
}

std::vector<Fields> SentFacts::messages() const {
  std::vector<Fields> all;
  for (const auto& [key, fields] : facts_) all.push_back(fields);
  return all;
}

}  // namespace orrery::live
