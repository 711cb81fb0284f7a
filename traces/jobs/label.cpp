#include "traces/jobs/label.hpp"

#include <functional>
#include <mutex>
#include <set>

namespace orrery {

const std::string& Label::kept(std::string_view text) {
  static std::mutex lock;
  // Never destroyed: labels may outlive whatever is static.
  static auto& all = *new std::set<std::string, std::less<>>;
  const std::lock_guard guard(lock);
  const auto found = all.find(text);
  return found != all.end() ? *found : *all.emplace(text).first;
}

const std::string& Label::nothing() {
  static const std::string none;
  return none;
}

}  // namespace orrery
