#include "live/programs/key_value_store.hpp"

#include <charconv>
#include <cstdint>

namespace orrery::live {
namespace {

/// Returns the whole number of a text; 0 for other texts.
std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

bool KeyValueStore::has_all(const Fields& keys, std::size_t from) const {
  for (std::size_t at = from; at < keys.size(); ++at) {
    if (values_.count(keys[at]) == 0) return false;
  }
  return true;
}

std::vector<StoreAnswer> KeyValueStore::answer_request(int connection, const Fields& request,
                                                       double now_s) {
  std::vector<StoreAnswer> answers;
  const bool gets = request.size() == 3 && request[0] == "get";
  if (gets || (request.size() >= 2 && request[0] == "wait")) {
    const double limit_s = static_cast<double>(number_in(request[1])) * 1e-3;
    waiting_[connection] = {
        {request.begin() + 2, request.end()}, gets, request[1], now_s + limit_s};
  } else {
    answers.push_back({connection, answer_now(request)});
  }
  answer_waiting(answers);
  return answers;
}

Fields KeyValueStore::answer_now(const Fields& request) {
  const std::string& kind = request.empty() ? std::string() : request[0];
  const std::size_t words = request.size();
  if (kind == "set" && words == 3) {
    values_[request[1]] = request[2];
    return {"ok"};
  }
  if (kind == "add" && words == 3) {
    std::string& value = values_[request[1]];
    value = std::to_string(number_in(value) + number_in(request[2]));
    return {"value", value};
  }
  if (kind == "compare" && words == 4) {
    const auto found = values_.find(request[1]);
    if (found == values_.end()) {
      if (!request[2].empty()) return {"value", request[2]};
      values_[request[1]] = request[3];
      return {"value", request[3]};
    }
    if (found->second == request[2]) found->second = request[3];
    return {"value", found->second};
  }
  if (kind == "check") return {"value", has_all(request, 1) ? "1" : "0"};
  if (kind == "delete" && words == 2) return {"value", values_.erase(request[1]) > 0 ? "1" : "0"};
  if (kind == "count") return {"value", std::to_string(values_.size())};
  return {"error", "unknown request '" + kind + "'"};
}

void KeyValueStore::answer_waiting(std::vector<StoreAnswer>& answers) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const Waiting& waiting = at->second;
    if (!has_all(waiting.keys, 0)) {
      ++at;
      continue;
    }
    Fields fields{"ok"};
    if (waiting.wants_value) fields = {"value", values_[waiting.keys[0]]};
    answers.push_back({at->first, fields});
    at = waiting_.erase(at);
  }
}

std::vector<StoreAnswer> KeyValueStore::expire_requests(double now_s) {
  std::vector<StoreAnswer> answers;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second.deadline_s > now_s) {
      ++at;
      continue;
    }
    answers.push_back({at->first, {"timeout", at->second.milliseconds}});
    at = waiting_.erase(at);
  }
  return answers;
}

}  // namespace orrery::live
