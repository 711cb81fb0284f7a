#include "policies/queues/qos_rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

std::vector<std::string> names_of_all(const std::map<std::string, Qos>& all) {
  std::vector<std::string> names;
  for (const auto& [name, qos] : all) names.push_back(name);
  return names;
}

/// Returns the entry of a map; 0 if there is none.
template <class Key>
std::uint64_t used_in(const std::map<Key, std::uint64_t>& used, const Key& key) {
  const auto found = used.find(key);
  return found == used.end() ? 0 : found->second;
}

}  // namespace

QosTable::QosTable(std::vector<Qos> all) {
  for (Qos& each : all) {
    largest_ = std::max(largest_, each.priority);
    has_preemption_ = has_preemption_ || !each.preempts.empty();
    const std::string name = each.name;
    if (all_.try_emplace(name, std::move(each)).second) continue;
    throw Error(ErrorKind::bad_input,
                fmt::format("multifactor.qos: expected each QOS once, found '{}' twice", name));
  }
  for (const auto& [name, qos] : all_) {
    for (const std::string& other : qos.preempts) {
      if (other != name && all_.contains(other)) continue;
      throw Error(ErrorKind::bad_input,
                  fmt::format("multifactor.qos: expected another QOS of the list that '{}' "
                              "preempts, found '{}'{}",
                              name, other, did_you_mean(other, names_of_all(all_))));
    }
  }
}

const Qos* QosTable::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

double QosTable::factor(const std::string& name) const {
  const Qos* const qos = find(name);
  return qos == nullptr || largest_ <= 0 ? 0 : qos->priority / largest_;
}

bool QosTable::can_preempt(const std::string& waiting, const std::string& running) const {
  const Qos* const qos = find(waiting);
  return qos != nullptr &&
         std::find(qos->preempts.begin(), qos->preempts.end(), running) != qos->preempts.end();
}

bool QosUse::fits(const std::string& qos, const std::string& user, std::uint64_t gpus) const {
  const Qos* const limits = table_.find(qos);
  if (limits == nullptr) return true;
  if (used_in(used_, qos) + gpus > limits->gpus) return false;
  return user.empty() || used_in(used_by_user_, {qos, user}) + gpus <= limits->gpus_per_user;
}

void QosUse::add(const std::string& qos, const std::string& user, std::uint64_t gpus) {
  if (table_.find(qos) == nullptr) return;
  used_[qos] += gpus;
  used_by_user_[{qos, user}] += gpus;
}

void QosUse::remove_gpus(const std::string& qos, const std::string& user, std::uint64_t gpus) {
  if (table_.find(qos) == nullptr) return;
  used_.at(qos) -= gpus;
  used_by_user_.at({qos, user}) -= gpus;
}

}  // namespace orrery
