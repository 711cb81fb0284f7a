#include "cli/shared/role_exchange.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery::cli {

using Json = nlohmann::json;

bool RoleExchange::is_exchange(const Json& question) {
  for (const char* key : {"meet", "wait", "needs", "summary", "summaries"}) {
    if (question.is_object() && question.contains(key)) return true;
  }
  return false;
}

std::vector<RoleExchange::Answer> RoleExchange::answer_question(std::uint32_t rank,
                                                                const Json& question) {
  std::vector<Answer> answers;
  if (question.contains("wait")) {
    waiting_[rank] = {question.at("wait").get<std::string>(),
                      question.at("number").get<std::uint64_t>()};
  } else if (question.contains("summaries")) {
    summaries_for_ = rank;
  } else {
    if (question.contains("meet")) post_arrival(rank, question);
    if (question.contains("summary")) summaries_[rank] = question.at("summary");
    if (question.contains("needs")) {
      for (const Json& each : question.at("needs")) needed_.insert(each.get<std::uint32_t>());
    }
    answers.push_back({rank, Json::object()});
  }
  for (Answer& each : answers_due()) answers.push_back(std::move(each));
  return answers;
}

std::vector<RoleExchange::Answer> RoleExchange::end_rank(std::uint32_t rank) {
  running_.erase(rank);
  waiting_.erase(rank);
  if (summaries_for_ == rank) summaries_for_.reset();
  return answers_due();
}

void RoleExchange::post_arrival(std::uint32_t rank, const Json& question) {
  const Place place{question.at("meet").get<std::string>(),
                    question.at("number").get<std::uint64_t>()};
  Meeting& meeting = meetings_[place];
  meeting.members = question.at("members").get<std::vector<std::uint32_t>>();
  meeting.contents[rank] = question.at("content").get<std::string>();
  meeting.seconds = std::max(meeting.seconds, question.at("seconds").get<double>());
  meeting.start = std::max(meeting.start, question.at("time").get<double>());
  if (meeting.contents.size() < meeting.members.size()) return;
  // All members post the meetings of a line in order, so that the one before has its end.
  double& end = line_ends_[place.first];
  meeting.start = std::max(meeting.start, end);
  end = meeting.start + meeting.seconds;
}

std::optional<Json> RoleExchange::outcome_of(std::uint32_t rank, const Place& place) {
  Meeting& meeting = meetings_[place];
  if (!meeting.members.empty() && meeting.contents.size() == meeting.members.size()) {
    Json answer{{"start", meeting.start}, {"contents", Json::object()}};
    for (const auto& [member, content] : meeting.contents) {
      answer["contents"][std::to_string(member)] = content;
    }
    meeting.answered.insert(rank);
    if (meeting.answered.size() == meeting.members.size()) meetings_.erase(place);
    return answer;
  }
  for (const std::uint32_t member : meeting.members) {
    // A rank that reports meets nobody any more.
    const bool reports = summaries_for_ == member || summaries_.contains(member);
    if (meeting.contents.contains(member) || (running_.contains(member) && !reports)) continue;
    return Json{{"lost", fmt::format("rank {} ended before rank {} met it", member, rank)}};
  }
  return {};
}

bool RoleExchange::is_blocked() const {
  return std::all_of(running_.begin(), running_.end(), [this](std::uint32_t rank) {
    return waiting_.contains(rank) || summaries_for_ == rank;
  });
}

std::string RoleExchange::waiting_text() const {
  std::string text;
  for (const auto& [rank, place] : waiting_) {
    text += fmt::format("{}rank {} waits for number {} of {}", text.empty() ? "" : ", ", rank,
                        place.second, place.first);
  }
  return text;
}

std::vector<RoleExchange::Answer> RoleExchange::answers_due() {
  std::vector<Answer> answers;
  for (auto wait = waiting_.begin(); wait != waiting_.end();) {
    if (std::optional<Json> outcome = outcome_of(wait->first, wait->second)) {
      answers.push_back({wait->first, std::move(*outcome)});
      wait = waiting_.erase(wait);
    } else {
      ++wait;
    }
  }
  if (answers.empty() && !waiting_.empty() && is_blocked()) {
    const std::string text = waiting_text();
    for (const auto& [rank, place] : waiting_) answers.push_back({rank, Json{{"stuck", text}}});
    waiting_.clear();
  }
  const bool all_told = std::all_of(running_.begin(), running_.end(), [this](std::uint32_t rank) {
    return summaries_for_ == rank || summaries_.contains(rank);
  });
  if (summaries_for_ && all_told) {
    Json list = Json::array();
    for (const auto& [rank, summary] : summaries_) list.push_back(summary);
    answers.push_back({*summaries_for_, Json{{"summaries", std::move(list)}}});
    summaries_for_.reset();
  }
  return answers;
}

}  // namespace orrery::cli
