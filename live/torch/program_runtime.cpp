#include "live/torch/program_runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "live/group/messages.hpp"

namespace orrery::live {
namespace {

/// Returns true if `rank` is among the ranks in the key of a group, for example "gloo:0:0-1-2#0".
bool has_rank(const std::string& key, std::size_t rank) {
  const std::size_t from = key.rfind(':') + 1;
  const std::string ranks = "-" + key.substr(from, key.rfind('#') - from) + "-";
  return ranks.find("-" + std::to_string(rank) + "-") != std::string::npos;
}

/// Returns a number as text, with all of its digits in every locale of the program.
std::string text_of(double number) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(std::numeric_limits<double>::max_digits10);
  text << number;
  return text.str();
}

/// Longest time that an operation may wait for a process that has ended, in seconds.
constexpr double kPatience_s = 2;
constexpr int kAloneCode = 4;  ///< exit code of an environment error

/// Ends this process without its exit handlers, which would wait for operations.
[[noreturn]] void end_alone(std::size_t rank, const std::string& why) {
  std::fprintf(stderr, "orrery: rank %zu ends: `orrery run` was killed, %s\n", rank, why.c_str());
  std::fflush(nullptr);
  _exit(kAloneCode);
}

/// Returns the bytes of memory that this process has in RAM, as Linux counts them; 0 if unknown.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ProgramRuntime::ProgramRuntime(int descriptor, std::size_t rank, std::string store_path,
                               bool shares_sums, std::size_t in_flight, InnerBuilder build)
    : rank_(rank),
      store_path_(std::move(store_path)),
      shares_sums_(shares_sums),
      in_flight_(in_flight),
      build_(std::move(build)) {
  control_ = std::make_unique<ProgramControl>(
      descriptor, rank, store_path_.substr(0, store_path_.rfind('/')),
      ControlCalls{.heard = [this](const ProgramEpoch& epoch) { announce_epoch(epoch); },
                   .others = [this](const Fields& fields) { handle_message(fields); },
                   .done_counts = [this] { return done_counts(); },
                   .addresses = [this] { return group_addresses(); },
                   .connected = [this](bool is_connected) { change_connection(is_connected); },
                   .watch_alone = [this] { watch_alone(); },
                   .steps = [this] { return steps_.load(); }});
}

std::shared_ptr<GroupWorker> ProgramRuntime::add_group(GroupPlace place) {
  const ProgramEpoch epoch = control_->epoch();
  std::shared_ptr<GroupWorker> group;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    place.key += "#" + std::to_string(created_[place.key]++);
    place.store_path = store_path_;
    place.shares_sums = shares_sums_;
    place.starts_early = in_flight_ == 0 ? place.is_queued() : in_flight_ > 1;
    group = std::make_shared<GroupWorker>(std::move(place), build_, *control_, records_);
    groups_.push_back(group);
  }
  const GroupPlace& made = group->group_place();
  control_->send_fields(
      message_of(MessageKind::group, {made.key, made.name, std::to_string(made.ranks.size())}));
  group->announce_epoch(epoch);
  group->start();
  group->wait_until_settled();
  return group;
}

void ProgramRuntime::leave_run() {
  control_->leave_run();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& group : groups_) group->abort_inner();
}

c10::intrusive_ptr<c10d::Store> ProgramRuntime::open_store() const {
  return c10::make_intrusive<ProgramStore>(store_path_);
}

void ProgramRuntime::wait_until_settled() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    bool settled = true;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& group : groups_) settled = settled && group->is_settled();
    }
    if (settled) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void ProgramRuntime::report_step(std::uint64_t step, double input_s, bool ends_step) {
  if (ends_step) steps_ = step;
  const double end_s = clock_s(), sent_bytes = records_.codes.sent_bytes();
  const auto report = [=] {
    return message_of(MessageKind::step, {std::to_string(step), text_of(end_s), text_of(input_s),
                                          text_of(sent_bytes)});
  };
  control_->reports().add_report(report, ends_step ? std::optional(end_s) : std::nullopt);
}

void ProgramRuntime::mark_update() {
  double newest_s = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& group : groups_) newest_s = std::max(newest_s, group->last_added_s());
  }
  compute_s_ = (newest_s > step_begin_s_ ? newest_s : clock_s()) - step_begin_s_;
}

std::vector<std::string> ProgramRuntime::end_step(const StepEnd& end) {
  steps_ = end.steps;
  if (end.is_update) report_step(end.steps, end.input_s, false);
  const double end_s = clock_s(), duration_s = end_s - step_begin_s_;
  const double input_s = end.input_s - std::exchange(last_input_s_, end.input_s);
  const auto report = [end, end_s, duration_s, input_s, compute_s = compute_s_,
                       pass = records_.meter.drain_exchange()] {
    return message_of(
        MessageKind::done,
        {std::to_string(end.steps), text_of(end_s), text_of(duration_s), text_of(compute_s),
         std::to_string(end.share), text_of(input_s), std::to_string(end.workers),
         std::to_string(end.depth), text_of(resident_bytes()), text_of(pass.bytes),
         text_of(pass.issued_s), text_of(pass.ended_s), text_of(pass.begun_s), text_of(pass.done_s),
         text_of(pass.sent_bytes), text_of(pass.variance)});
  };
  control_->reports().add_report(report, end_s);
  std::vector<std::string> plans = plans_.begin_step(end.steps);
  step_begin_s_ = clock_s();
  return plans;
}

void ProgramRuntime::handle_message(const Fields& fields) {
  if (!plans_.handle_message(fields)) meeting_.handle_message(fields);
}

void ProgramRuntime::print_processes() {
  std::string processes;
  for (const auto& group : all_groups()) {
    if (!processes.empty()) break;
    for (const int64_t each : group->processes()) processes += " " + std::to_string(each);
  }
  std::fprintf(stderr,
               "orrery: `orrery run` was killed: the program goes on without it, and the next loss "
               "of a rank ends the program, until `orrery run --take-over` takes it over "
               "(`orrery runs`); its processes:%s\n",
               processes.c_str());
}

void ProgramRuntime::change_connection(bool is_connected) {
  if (is_connected) {
    plans_.begin_connection();
    meeting_.begin_connection();
    return;
  }
  plans_.end_connection();
  meeting_.end_connection();
  stranded_since_s_.clear();
  if (!control_->has_epoch()) end_alone(rank_, "before the program had a process group");
  const std::vector<std::size_t> members = control_->epoch().members;
  if (!members.empty() && members.front() == rank_) print_processes();
}

void ProgramRuntime::watch_alone() {
  const double now_s = clock_s();
  for (const auto& group : all_groups()) {
    const std::string operation = group->stranded_operation();
    if (operation.empty()) {
      stranded_since_s_.erase(group.get());
      continue;
    }
    const double since_s = stranded_since_s_.emplace(group.get(), now_s).first->second;
    if (now_s - since_s < kPatience_s) continue;
    end_alone(rank_, "and " + operation + " cannot be carried through a loss without it");
  }
}

std::vector<std::shared_ptr<GroupWorker>> ProgramRuntime::all_groups() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_;
}

void ProgramRuntime::announce_epoch(const ProgramEpoch& epoch) {
  for (const auto& group : all_groups()) group->announce_epoch(epoch);
}

DoneCounts ProgramRuntime::done_counts() {
  DoneCounts counts;
  for (const auto& group : all_groups()) counts[group->group_place().key] = group->done_count();
  return counts;
}

Addresses ProgramRuntime::group_addresses() {
  Addresses addresses;
  for (const auto& group : all_groups()) addresses.insert(group->address());
  return addresses;
}

void ProgramRuntime::announce_arrival() {
  for (const auto& group : all_groups()) group->wait_until_idle();
  Fields counts;
  for (const auto& [group, count] : done_counts()) {
    counts.push_back(group);
    counts.push_back(std::to_string(count));
  }
  meeting_.announce_arrival(counts);
}

std::string ProgramRuntime::adopt_progress(const Fields& counts) {
  const std::vector<std::shared_ptr<GroupWorker>> groups = all_groups();
  DoneCounts wanted;
  for (std::size_t at = 0; at + 1 < counts.size(); at += 2) {
    if (has_rank(counts[at], rank_)) wanted[counts[at]] = std::stoull(counts[at + 1]);
  }
  for (const auto& group : groups) {
    if (wanted.count(group->group_place().key) == 0) return group->group_place().key;
  }
  if (wanted.size() > groups.size()) {
    for (const auto& group : groups) wanted.erase(group->group_place().key);
    return wanted.begin()->first;
  }
  for (const auto& group : groups) group->adopt_progress(wanted[group->group_place().key]);
  return "";
}

}  // namespace orrery::live
