#include "live/slurm/answers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

const char* const kJobFields =
    "JobArrayID:|,SubmitTime:|,State:|,UserName:|,Account:|,Partition:|,EligibleTime:|,TimeLimit:|,"
    "NumNodes:|,NodeList:|,tres-per-node:|,tres-per-job:|,tres-per-task:|,NumTasks:|,ReqNodes:|,"
    "PriorityLong:|,Reason:|,RestartCnt:|,Dependency:|";
const char* const kKeeperFields = "JobArrayID:|,SubmitTime:|,UserName:|";
const char* const kCommentFields = "JobArrayID:|,Comment:|";
const char* const kEndFields = "jobid,submit,state";

namespace {

constexpr std::size_t kMostHosts = 131072;

[[noreturn]] void refuse(std::string message) { throw Error(ErrorKind::usage, std::move(message)); }

template <class Number>
Number parse_number(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) {
    refuse(fmt::format("expected a number, found '{}'", text));
  }
  return value;
}

bool is_none(std::string_view text) {
  constexpr std::array<std::string_view, 5> kNone{"", "N/A", "(null)", "NONE", "Unknown"};
  return std::find(kNone.begin(), kNone.end(), text) != kNone.end();
}

std::int64_t parse_instant(std::string_view text) {
  if (is_none(text)) return 0;
  const auto at = parse_number<std::int64_t>(text);
  if (at < 0) refuse(fmt::format("expected seconds since 1970, found '{}'", text));
  return at;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view parse_job_id(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789"));
  if (number.empty() || text.find_first_not_of("0123456789_+") != std::string_view::npos) {
    refuse(fmt::format("expected the id of a job, found '{}'", text));
  }
  parse_number<std::uint32_t>(number);
  return text;
}

/// Line of an answer whose fields are read from left to right.
class Line {
 public:
  Line(std::string_view command, int number, std::string_view text)
      : command_(command), number_(number), text_(text) {}

  /// Returns `parse` of the next field, which ends at '|'. Throws bad_input at the field for an
  /// error of `parse`, and if the line has no further field.
  template <class Parse>
  auto next(std::string_view name, const Parse& parse) {
    const std::size_t end = text_.find('|', at_);
    if (end == std::string_view::npos) {
      refuse_at(text_.size(),
                fmt::format("expected the field {}, found the end of the line", name));
    }
    const std::string_view field = text_.substr(at_, end - at_);
    const std::size_t begin = std::exchange(at_, end + 1);
    return parse_at(begin, name, field, parse);
  }
  /// Returns `parse` of the first field KEY=VALUE with this key, whose value ends at a space.
  template <class Parse>
  auto find(const std::string& key, const Parse& parse) {
    std::size_t begin = std::string_view::npos;
    if (text_.starts_with(key + "=")) begin = key.size() + 1;
    if (begin == std::string_view::npos) {
      const std::size_t at = text_.find(" " + key + "=");
      if (at == std::string_view::npos) {
        refuse_at(text_.size(), fmt::format("expected the field {}, found none", key));
      }
      begin = at + key.size() + 2;
    }
    const std::string_view field = text_.substr(begin, text_.find(' ', begin) - begin);
    return parse_at(begin, key, field, parse);
  }
  /// Throws bad_input if the line has more text.
  void expect_end() const {
    if (at_ < text_.size()) refuse_at(at_, "expected the end of the line, found another field");
  }

 private:
  template <class Parse>
  auto parse_at(std::size_t begin, std::string_view name, std::string_view field,
                const Parse& parse) {
    try {
      return parse(field);
    } catch (const Error& error) {
      refuse_at(begin, fmt::format("{}: {}", name, error.message()));
    }
  }
  [[noreturn]] void refuse_at(std::size_t column, const std::string& message) const {
    throw Error(SourcePlace{.file = fmt::format("answer of {}", command_),
                            .line = number_,
                            .column = static_cast<int>(column) + 1,
                            .line_text = std::string(text_)},
                message);
  }

  std::string_view command_;
  int number_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Calls `read` with each line of the answer, in order. Throws bad_input if the last line has no
/// end.
template <class Read>
void for_each_line(std::string_view command, std::string_view answer, const Read& read) {
  for (int number = 1; !answer.empty(); ++number) {
    const std::size_t end = answer.find('\n');
    if (end == std::string_view::npos) {
      throw Error(SourcePlace{.file = fmt::format("answer of {}", command),
                              .line = number,
                              .column = static_cast<int>(answer.size()) + 1,
                              .line_text = std::string(answer)},
                  "expected the end of the line, found the end of the answer: it is cut short");
    }
    Line line(command, number, answer.substr(0, end));
    if (end > 0) read(line);
    answer.remove_prefix(end + 1);
  }
}

std::string as_text(std::string_view text) { return is_none(text) ? "" : std::string(text); }

/// Resources of a request for GPUs: those of each node, of each task or of the whole job.
struct Request {
  std::uint32_t per_node = 0, per_job = 0, per_task = 0, tasks = 0;
};

void set_gpus(const Request& request, SlurmJob& job) {
  const std::uint32_t nodes =
      job.placed_on.empty() ? job.nodes : static_cast<std::uint32_t>(job.placed_on.size());
  if (request.per_node > 0 || nodes == 0) {
    job.gpus_per_node = request.per_node;
    return;
  }
  const std::uint32_t all =
      request.per_job > 0 ? request.per_job : request.per_task * std::max(1u, request.tasks);
  job.gpus_per_node = (all + nodes - 1) / nodes;
  job.is_uneven = nodes > 1 && all > 0;
}

SlurmJob parse_job(Line& line) {
  SlurmJob job;
  Request request;
  const auto small = parse_number<std::uint32_t>;
  job.id = line.next("JobArrayID", parse_job_id);
  job.submit_s = line.next("SubmitTime", parse_instant);
  job.state = line.next("State", [&job](std::string_view word) {
    job.phase = phase_of(word);
    return std::string(word);
  });
  job.user = line.next("UserName", as_text);
  job.account = line.next("Account", as_text);
  job.partition = line.next("Partition", as_text);
  job.eligible_s = line.next("EligibleTime", parse_instant);
  job.limit_s = line.next("TimeLimit", parse_limit);
  job.nodes = line.next("NumNodes", small);
  job.placed_on = line.next("NodeList", expand_hosts);
  request.per_node = line.next("tres-per-node", count_gpus);
  request.per_job = line.next("tres-per-job", count_gpus);
  request.per_task = line.next("tres-per-task", count_gpus);
  request.tasks = line.next("NumTasks", small);
  job.required_nodes = line.next("ReqNodes", expand_hosts);
  job.is_held = line.next("PriorityLong", parse_number<std::uint64_t>) == 0;
  job.reason = line.next("Reason", as_text);
  job.restarts = line.next("RestartCnt", small);
  job.dependency = line.next("Dependency", as_text);
  line.expect_end();
  set_gpus(request, job);
  return job;
}

bool is_usable_state(std::string_view state) {
  if (state.find('*') != std::string_view::npos) return false;  // slurmd does not answer
  constexpr std::array<std::string_view, 4> kUsable{"IDLE", "MIXED", "ALLOCATED", "COMPLETING"};
  const std::vector<std::string_view> words = split(state, '+');
  return std::all_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::find(kUsable.begin(), kUsable.end(), word) != kUsable.end();
  });
}

SlurmNode parse_node(Line& line) {
  const auto text = [](std::string_view field) { return std::string(field); };
  SlurmNode node;
  node.name = line.find("NodeName", [](std::string_view name) {
    if (name.empty()) refuse("expected the name of a node, found none");
    return std::string(name);
  });
  node.gpus = line.find("Gres", count_gpus);
  node.gpu_type = line.find("Gres", gpu_type_in);
  node.state = line.find("State", text);
  node.is_usable = is_usable_state(node.state);
  node.partitions = line.find("Partitions", [](std::string_view list) {
    std::vector<std::string> names;
    for (const std::string_view name : split(list, ',')) names.emplace_back(name);
    return names;
  });
  return node;
}

/// Appends the names of one element of a list of hosts: "n7", "n[1-2,04]".
void expand_element(std::string_view element, std::vector<std::string>& names) {
  const std::size_t open = element.find('[');
  if (open == std::string_view::npos) {
    if (element.empty()) refuse("expected the name of a node, found none");
    names.emplace_back(element);
    return;
  }
  const std::size_t close = element.find(']', open);
  if (close == std::string_view::npos) refuse(fmt::format("expected ']' in '{}'", element));
  const std::string_view prefix = element.substr(0, open), suffix = element.substr(close + 1);
  if (suffix.find('[') != std::string_view::npos) {
    refuse(fmt::format("expected one range in the name '{}', found several", element));
  }
  for (const std::string_view range : split(element.substr(open + 1, close - open - 1), ',')) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    const auto first = parse_number<std::uint32_t>(low), last = parse_number<std::uint32_t>(high);
    if (last < first) refuse(fmt::format("expected an ascending range, found '{}'", range));
    if (last - first >= kMostHosts - std::min(names.size(), kMostHosts)) {
      refuse(fmt::format("expected at most {} names, found more", kMostHosts));
    }
    for (std::uint32_t number = first; number <= last; ++number) {
      names.push_back(fmt::format("{}{:0{}}{}", prefix, number, low.size(), suffix));
    }
  }
}

/// One entry of a list of generic resources: "gpu:a100:2" is two GPUs of the type "a100".
struct GpuEntry {
  std::string type;
  std::uint32_t count = 1;
};

std::vector<GpuEntry> gpu_entries(std::string_view resources) {
  if (is_none(resources)) return {};
  std::string plain;
  int depth = 0;
  for (const char letter : resources) {
    depth += letter == '(' ? 1 : 0;
    if (depth == 0) plain += letter;
    depth -= letter == ')' ? 1 : 0;
  }
  std::vector<GpuEntry> entries;
  for (std::string_view each : split(plain, ',')) {
    if (each.starts_with("gres:") || each.starts_with("gres/")) each.remove_prefix(5);
    const std::vector<std::string_view> words = split(each, ':');
    if (words.front() != "gpu") continue;
    GpuEntry& entry = entries.emplace_back();
    const std::string_view last = words.back();
    const bool has_count = words.size() > 1 && last.find_first_not_of("0123456789") != 0;
    if (has_count) entry.count = parse_number<std::uint32_t>(last);
    if (words.size() > (has_count ? 2 : 1)) entry.type = words[1];
  }
  return entries;
}

}  // namespace

std::string complete_answer(const std::string& text, std::string_view command) {
  if (text.ends_with(kEndOfAnswer)) return text.substr(0, text.size() - kEndOfAnswer.size());
  const std::size_t failed = text.rfind("failed: ");
  if (failed != std::string::npos && text.ends_with('\n')) {
    std::string why = text.substr(failed + 8, text.size() - failed - 9);
    std::replace(why.begin(), why.end(), '\n', ' ');
    throw Error(ErrorKind::environment, fmt::format("{}: {}", command, why));
  }
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: expected a complete answer, found {} bytes that end early", command,
                          text.size()));
}

std::vector<SlurmJob> parse_jobs(const std::string& answer) {
  std::vector<SlurmJob> jobs;
  for_each_line("squeue", answer, [&](Line& line) { jobs.push_back(parse_job(line)); });
  return jobs;
}

std::vector<SlurmKeeper> parse_keepers(const std::string& answer) {
  std::vector<SlurmKeeper> keepers;
  for_each_line("squeue", answer, [&](Line& line) {
    SlurmKeeper& keeper = keepers.emplace_back();
    keeper.id = line.next("JobArrayID", parse_job_id);
    keeper.submit_s = line.next("SubmitTime", parse_instant);
    keeper.user = line.next("UserName", as_text);
    line.expect_end();
  });
  return keepers;
}

std::vector<SlurmNode> parse_nodes(const std::string& answer) {
  std::vector<SlurmNode> nodes;
  for_each_line("scontrol show node", answer,
                [&](Line& line) { nodes.push_back(parse_node(line)); });
  return nodes;
}

std::vector<QueueNode> managed_nodes(const std::vector<SlurmNode>& all,
                                     const std::set<std::string>& partitions) {
  std::vector<QueueNode> nodes;
  for (const SlurmNode& node : all) {
    const bool chosen =
        partitions.empty() ||
        std::any_of(node.partitions.begin(), node.partitions.end(),
                    [&](const std::string& name) { return partitions.contains(name); });
    if (node.gpus > 0 && chosen) nodes.push_back(node);
  }
  if (nodes.empty()) {
    throw Error(ErrorKind::bad_input,
                "expected nodes with GPUs (Gres=gpu:N) in the managed partitions, found none in "
                "`scontrol show node`");
  }
  return nodes;
}

std::vector<SlurmEnd> parse_ends(const std::string& answer) {
  // sacct has no '|' at the end of a line: read each line as if it had one.
  std::string closed;
  for (const char letter : answer) {
    if (letter == '\n') closed += '|';
    closed += letter;
  }
  std::vector<SlurmEnd> ends;
  for_each_line("sacct", closed, [&](Line& line) {
    SlurmEnd end;
    end.id = line.next("JobID", parse_job_id);
    end.submit_s = line.next("Submit", parse_instant);
    const auto how = line.next("State", [](std::string_view state) -> std::optional<Ending> {
      if (phase_of(state.substr(0, state.find(' '))) != SlurmPhase::ended) return {};
      return ending_of(state);
    });
    line.expect_end();
    if (!how) return;
    end.how = *how;
    ends.push_back(std::move(end));
  });
  return ends;
}

std::int64_t parse_boot_time(const std::string& answer) {
  const std::size_t at = answer.find("BOOT_TIME");
  const std::size_t equals = at == std::string::npos ? at : answer.find("= ", at);
  if (equals == std::string::npos) {
    throw Error(ErrorKind::bad_input, "scontrol show config: expected BOOT_TIME, found none");
  }
  const std::string_view rest = std::string_view(answer).substr(equals + 2);
  return parse_instant(rest.substr(0, rest.find('\n')));
}

std::optional<std::map<std::string, std::string>> parse_comments(
    const std::string& answer, const std::vector<std::string>& ids) {
  std::map<std::string, std::string> comments;
  const std::set<std::string_view> asked(ids.begin(), ids.end());
  for (std::size_t begin = 0; begin < answer.size();) {
    // Line breaks in the Comment of one job alone are its text.
    const std::size_t last = answer.size() - 1;
    const std::size_t end = asked.size() == 1 ? last : std::min(answer.find('\n', begin), last);
    const std::string_view line = std::string_view(answer).substr(begin, end - begin);
    const std::size_t bar = line.find('|');
    if (answer[end] != '\n' || bar == std::string_view::npos || bar + 1 == line.size() ||
        !line.ends_with('|') || !asked.contains(line.substr(0, bar))) {
      return {};
    }
    const std::string_view text = line.substr(bar + 1, line.size() - bar - 2);
    const bool is_new =
        comments.emplace(line.substr(0, bar), text == "(null)" ? "" : text).second;
    if (!is_new) return {};
    begin = end + 1;
  }
  return comments;
}

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> names;
  if (is_none(list)) return names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '[') ++depth;
    if (at < list.size() && list[at] == ']') --depth;
    if (at < list.size() && (list[at] != ',' || depth > 0)) continue;
    expand_element(list.substr(begin, at - begin), names);
    begin = at + 1;
  }
  if (names.size() > kMostHosts) refuse(fmt::format("expected at most {} names", kMostHosts));
  return names;
}

std::uint32_t count_gpus(std::string_view resources) {
  std::uint32_t gpus = 0;
  for (const GpuEntry& each : gpu_entries(resources)) gpus += each.count;
  return gpus;
}

std::string gpu_type_in(std::string_view resources) {
  for (const GpuEntry& each : gpu_entries(resources)) {
    if (!each.type.empty()) return each.type;
  }
  return {};
}

std::int64_t parse_limit(std::string_view limit) {
  if (is_none(limit) || limit == "UNLIMITED" || limit == "NOT_SET" || limit == "Partition_Limit") {
    return 0;
  }
  std::int64_t days = 0;
  if (const std::size_t dash = limit.find('-'); dash != std::string_view::npos) {
    days = parse_number<std::uint32_t>(limit.substr(0, dash));
    limit.remove_prefix(dash + 1);
  }
  const std::vector<std::string_view> parts = split(limit, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    refuse(fmt::format("expected [DAYS-][HOURS:]MINUTES:SECONDS, found '{}'", limit));
  }
  std::int64_t seconds = 0;
  for (const std::string_view part : parts) {
    seconds = seconds * 60 + parse_number<std::uint32_t>(part);
  }
  return days * 86400 + seconds;
}

SlurmPhase phase_of(std::string_view state) {
  using enum SlurmPhase;
  static constexpr std::array<std::pair<std::string_view, SlurmPhase>, 23> kPhases{{
      {"PENDING", pending},      {"REQUEUED", pending},     {"REQUEUE_FED", pending},
      {"REQUEUE_HOLD", pending}, {"SPECIAL_EXIT", pending}, {"RUNNING", placed},
      {"COMPLETING", placed},    {"CONFIGURING", placed},   {"RESIZING", placed},
      {"SIGNALING", placed},     {"STAGE_OUT", placed},     {"STOPPED", placed},
      {"SUSPENDED", placed},     {"BOOT_FAIL", ended},      {"CANCELLED", ended},
      {"COMPLETED", ended},      {"DEADLINE", ended},       {"FAILED", ended},
      {"NODE_FAIL", ended},      {"OUT_OF_MEMORY", ended},  {"PREEMPTED", ended},
      {"REVOKED", ended},        {"TIMEOUT", ended}}};
  for (const auto& [word, phase] : kPhases) {
    if (word == state) return phase;
  }
  std::vector<std::string> words;
  for (const auto& [word, phase] : kPhases) words.emplace_back(word);
  refuse(fmt::format("expected the state of a job, found '{}'{}", state,
                     did_you_mean(std::string(state), words)));
}

Ending ending_of(std::string_view state) {
  if (state == "COMPLETED") return Ending::completed;
  return state.starts_with("CANCELLED") ? Ending::cancelled : Ending::failed;
}

}  // namespace orrery::live
