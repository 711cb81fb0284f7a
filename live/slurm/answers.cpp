#include "live/slurm/answers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

const char* const kJobFields =
    "JobArrayID:|,SubmitTime:|,State:|,UserName:|,Account:|,Partition:|,EligibleTime:|,TimeLimit:|,"
    "NumNodes:|,NodeList:|,tres-per-node:|,tres-per-job:|,tres-per-task:|,NumTasks:|,ReqNodes:|,"
    "PriorityLong:|,Reason:|,RestartCnt:|,Dependency:|,Name:64|";
const char* const kKeeperFields = "JobArrayID:|,SubmitTime:|,UserName:|";
const char* const kCommentFields = "JobArrayID:|,Comment:|";
const char* const kRunTimeFields = "JobArrayID:|,State:|,StartTime:|,EndTime:|";
const char* const kEndFields = "jobid,submit,state,start,end";

namespace {

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
  /// Returns `parse` of the last field, any text of `width` bytes before a '|'. Throws bad_input at
  /// the field for another length.
  template <class Parse>
  auto last(std::string_view name, std::size_t width, const Parse& parse) {
    const std::string_view rest = text_.substr(at_);
    if (rest.size() != width + 1 || rest.back() != '|') {
      refuse_at(at_, fmt::format("{}: expected {} bytes and '|' at the end of the line, found {} "
                                 "bytes",
                                 name, width, rest.size()));
    }
    return parse_at(at_, name, rest.substr(0, width), parse);
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

std::size_t end_of_line(std::string_view answer) { return answer.find('\n'); }

/// Returns the end of the first row of an answer with kJobFields: a name may have line breaks.
std::size_t end_of_job(std::string_view answer) {
  static const auto kPlainFields =
      std::count(kJobFields, kJobFields + std::strlen(kJobFields), '|') - 1;
  auto left = kPlainFields;
  for (std::size_t at = 0; at < answer.size(); ++at) {
    if (answer[at] == '\n') return at;
    if (answer[at] == '|' && --left == 0) return answer.find('\n', at + 1 + kNameWidth);
  }
  return std::string_view::npos;
}

/// Calls `read` with each line of the answer, in order. `find_end`: returns the end of the first
/// line of a text. Throws bad_input if the last line has no end.
template <class Read>
void for_each_line(std::string_view command, std::string_view answer, const Read& read,
                   std::size_t (*find_end)(std::string_view) = end_of_line) {
  for (int number = 1; !answer.empty(); ++number) {
    const std::size_t end = find_end(answer);
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

std::string as_text(std::string_view text) { return is_absent(text) ? "" : std::string(text); }

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
  job.nodes = line.next("NumNodes", parse_count);
  job.placed_on = line.next("NodeList", expand_hosts);
  request.per_node = line.next("tres-per-node", count_gpus);
  request.per_job = line.next("tres-per-job", count_gpus);
  request.per_task = line.next("tres-per-task", count_gpus);
  request.tasks = line.next("NumTasks", parse_count);
  job.required_nodes = line.next("ReqNodes", expand_hosts);
  job.is_held = line.next("PriorityLong", parse_large_count) == 0;
  job.reason = line.next("Reason", as_text);
  job.restarts = line.next("RestartCnt", parse_count);
  job.dependency = line.next("Dependency", as_text);
  job.name = line.last("Name", kNameWidth, [](std::string_view text) {
    return std::string(text.substr(0, text.find_last_not_of(' ') + 1));
  });
  set_gpus(request, job);
  return job;
}

bool is_usable_state(std::string_view state) {
  if (state.find('*') != std::string_view::npos) return false;  // slurmd does not answer
  constexpr std::array<std::string_view, 4> kUsable{"IDLE", "MIXED", "ALLOCATED", "COMPLETING"};
  const std::vector<std::string_view> words = split_text(state, '+');
  return std::all_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::find(kUsable.begin(), kUsable.end(), word) != kUsable.end();
  });
}

SlurmNode parse_node(Line& line) {
  const auto text = [](std::string_view field) { return std::string(field); };
  SlurmNode node;
  node.name = line.find("NodeName", [](std::string_view name) {
    if (name.empty()) throw Error(ErrorKind::usage, "expected the name of a node, found none");
    return std::string(name);
  });
  node.gpus = line.find("Gres", count_gpus);
  node.gpu_type = line.find("Gres", gpu_type_in);
  node.state = line.find("State", text);
  node.is_usable = is_usable_state(node.state);
  node.partitions = line.find("Partitions", [](std::string_view list) {
    std::vector<std::string> names;
    for (const std::string_view name : split_text(list, ',')) names.emplace_back(name);
    return names;
  });
  return node;
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
  for_each_line(
      "squeue", answer, [&](Line& line) { jobs.push_back(parse_job(line)); }, end_of_job);
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

std::map<std::string, std::int64_t> parse_run_times(const std::string& answer) {
  std::map<std::string, std::int64_t> found;
  for_each_line("squeue", answer, [&](Line& line) {
    const std::string id(line.next("JobArrayID", parse_job_id));
    const SlurmPhase phase = line.next("State", phase_of);
    const std::int64_t start_s = line.next("StartTime", parse_instant);
    const std::int64_t end_s = line.next("EndTime", parse_instant);
    line.expect_end();
    if (phase == SlurmPhase::ended && start_s > 0 && end_s > start_s) found[id] = end_s - start_s;
  });
  return found;
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
    const auto instant = [](std::string_view text) {
      const bool is_known = !text.empty() && text[0] >= '0' && text[0] <= '9';  // not "None"
      return is_known ? parse_instant(text) : 0;
    };
    const std::int64_t start_s = line.next("Start", instant);
    const std::int64_t end_s = line.next("End", instant);
    line.expect_end();
    if (!how) return;
    end.how = *how;
    if (start_s > 0 && end_s > start_s) end.ran_s = end_s - start_s;
    ends.push_back(std::move(end));
  });
  return ends;
}

SlurmConfiguration parse_configuration(const std::string& answer) {
  constexpr std::string_view kBegin = "Configuration data as of ";
  SlurmConfiguration found;
  if (answer.starts_with(kBegin)) {
    const std::string_view clock =
        std::string_view(answer).substr(kBegin.size(), answer.find('\n') - kBegin.size());
    const bool is_number = clock.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) found.now_s = parse_instant(clock);
  }
  const std::size_t at = answer.find("BOOT_TIME");
  const std::size_t equals = at == std::string::npos ? at : answer.find("= ", at);
  if (equals == std::string::npos) {
    throw Error(ErrorKind::bad_input, "scontrol show config: expected BOOT_TIME, found none");
  }
  const std::string_view rest = std::string_view(answer).substr(equals + 2);
  found.boot_s = parse_instant(rest.substr(0, rest.find('\n')));
  return found;
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
    const bool is_new = comments.emplace(line.substr(0, bar), text == "(null)" ? "" : text).second;
    if (!is_new) return {};
    begin = end + 1;
  }
  return comments;
}

}  // namespace orrery::live
