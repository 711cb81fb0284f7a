#include "live/torch/group_worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include "live/group/process_state.hpp"
#include "live/group/virtual_ranks.hpp"
#include "live/torch/tensor_sums.hpp"

namespace orrery::live {
namespace {

/// Failures of one operation among the same members after which the program gets the exception.
constexpr int kMaxFailures = 3;
/// Pause between two questions whether work on a device has ended, once kAwake has passed.
constexpr std::chrono::microseconds kPoll{20};
constexpr std::chrono::milliseconds kAwake{1};
/// Longest time from the failure of a connection to the announcement of the loss that explains it.
constexpr std::chrono::seconds kLossNotice{5};

c10d::BroadcastOptions broadcast_from(std::size_t root) {
  c10d::BroadcastOptions options;
  options.rootRank = static_cast<int64_t>(root);
  return options;
}

/// Returns the future of inner work; null for Gloo's reduce-scatter, whose work has none.
c10::intrusive_ptr<c10::ivalue::Future> future_of(const c10::intrusive_ptr<c10d::Work>& work) {
  try {
    return work->getFuture();
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// Blocks until inner work has ended. Returns its error; empty if it succeeded.
std::string problem_of(const c10::intrusive_ptr<c10d::Work>& work) {
  try {
    work->wait();
    return "";
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.empty() ? "unknown error" : text;
  }
}

/// Tells `orrery run` about the first operation of a group that no loss may interrupt. `lock`
/// guards the member, and is released meanwhile.
void report_sharded(GroupMember& member, const std::string& key, ProgramControl& control,
                    std::unique_lock<std::mutex>& lock) {
  const std::string operation = member.drain_sharded_operation();
  if (operation.empty()) return;
  lock.unlock();
  control.send_fields(message_of(MessageKind::sharded, {key, operation}));
  lock.lock();
}

/// Returns true if the next operation may start before the oldest one in flight has ended.
bool can_begin_early(const OperationLine& line, const GroupMember& member, const EpochView& view) {
  return view.starts_early && line.can_start_early() &&
         member.can_begin_early(line.next_operation()->kind);
}

/// Begins the next operation that waits.
Operation& begin_next(OperationLine& line, GroupMember& member) {
  Operation& next = line.begin_next();
  member.begin_operation(next.kind, next.name);
  return next;
}

}  // namespace

/// Connection that is being built by a thread of its own, which a newer epoch abandons.
struct GroupWorker::Connecting {
  InnerGroups groups;
  std::shared_ptr<SharedSums> sums;
  std::string problem;
  bool has_ended = false;
};

void GroupWorker::start() {
  std::thread([self = shared_from_this()] { self->run_steps(); }).detach();
}

void GroupWorker::announce_epoch(const ProgramEpoch& epoch) {
  EpochView next;
  next.size = place_.ranks.size();
  for (std::size_t member = 0; member < place_.ranks.size(); ++member) {
    if (std::binary_search(epoch.members.begin(), epoch.members.end(), place_.ranks[member])) {
      next.alive.push_back(member);
    }
  }
  const std::uint64_t own = epoch_of_group(epoch, place_.ranks);
  bool stays_broken = false, stays_settled = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (epoch.number < program_epoch_) return;
    const bool is_repeated = epoch.number == program_epoch_;
    program_epoch_ = epoch.number;
    const bool was_broken = member_.is_broken() && member_.epoch() == own;
    if (member_.epoch() < own && view_.sums != nullptr) view_.sums->interrupt_sum();
    member_.announce_epoch(own, next.alive.size());
    if (member_.epoch() == own) next_view_ = std::move(next);
    stays_broken = was_broken;
    stays_settled = is_repeated && member_.is_settled();
    changed_.notify_all();
  }
  if (stays_broken) send_news(MessageKind::problem, "a connection is broken");
  if (stays_settled) send_news(MessageKind::settled, place_.key);
}

std::uint32_t GroupWorker::address() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return address_of_group(place_.key, member_.epoch());
}

void GroupWorker::add_operation(std::unique_ptr<Operation> operation) {
  last_added_s_ = clock_s();
  const std::lock_guard<std::mutex> lock(mutex_);
  line_.add_operation(std::move(operation));
  changed_.notify_all();
}

std::uint64_t GroupWorker::done_count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return member_.progress().done;
}

bool GroupWorker::is_settled() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return member_.is_settled();
}

std::string GroupWorker::stranded_operation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool lacks_member =
      !std::all_of(view_.processes.begin(), view_.processes.end(), is_running);
  if (!member_.is_broken() && !(member_.has_operation() && lacks_member)) return "";
  return member_.has_operation() ? line_.in_flight(0)->name : "the connection of a group";
}

std::vector<int64_t> GroupWorker::processes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return view_.processes;
}

bool GroupWorker::is_newest(std::uint64_t epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return member_.epoch() == epoch;
}

c10::intrusive_ptr<c10d::Backend> GroupWorker::inner_for(const std::string& name) {
  std::unique_lock<std::mutex> lock(mutex_);
  member_.mark_sharded(name);
  changed_.notify_all();
  report_sharded(member_, place_.key, control_, lock);
  changed_.wait(lock, [this] { return member_.is_settled(); });
  return view_.inner;
}

void GroupWorker::wait_if_refused() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_refused = [this] { return !member_.refused_operation().empty(); };
  if (!changed_.wait_for(lock, kLossNotice, is_refused)) return;
  changed_.wait(lock, [] { return false; });  // `orrery run` ends the process
}

void GroupWorker::wait_until_settled() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(
      lock, [this] { return member_.is_settled() || member_.next_step() == GroupStep::refuse; });
}

void GroupWorker::wait_until_idle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] {
    const bool is_idle = line_.has_begun_all() && !member_.has_operation();
    return is_idle || member_.next_step() == GroupStep::refuse;
  });
}

void GroupWorker::adopt_progress(std::uint64_t operations) {
  const std::lock_guard<std::mutex> lock(mutex_);
  member_.adopt_progress(operations);
}

void GroupWorker::run_steps() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (!member_.has_operation() && !line_.has_begun_all()) {
      begin_next(line_, member_);
      report_sharded(member_, place_.key, control_, lock);
    }
    const GroupStep step = member_.next_step();
    const std::uint64_t epoch = member_.epoch();
    if (step == GroupStep::wait) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    if (step == GroupStep::refuse) {
      control_.send_fields(
          message_of(MessageKind::refuse, {member_.refused_operation(), list_of(place_.ranks)}));
      return;
    }
    try {
      take_step(step, epoch);
    } catch (const std::exception& error) {
      report_failure(epoch, error.what());
    }
    lock.lock();
  }
}

void GroupWorker::take_step(GroupStep step, std::uint64_t epoch) {
  switch (step) {
    case GroupStep::connect: return connect_inner(epoch);
    case GroupStep::exchange: return exchange_progress(epoch);
    case GroupStep::deliver: return deliver_result(epoch);
    case GroupStep::perform: return perform_operation(epoch);
    case GroupStep::acknowledge: {
      std::vector<at::Tensor> one{at::ones({1}, at::kInt)};
      if (wait_for_work(view_.control->allreduce(one), epoch)) finish_step(step, epoch);
      return;
    }
    case GroupStep::release: return release_operation();
    default: return;
  }
}

void GroupWorker::finish_step(GroupStep step, std::uint64_t epoch) {
  std::size_t place = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uint64_t before = member_.progress().done;
    member_.finish_step(step, epoch);
    changed_.notify_all();
    if (member_.progress().done == before) return;
    place = before - member_.released();
  }
  failures_ = 0;
  // Ranks that add in shared memory start nothing early, and are one operation apart at most.
  const std::size_t count = view_.sums != nullptr ? 1 : kMaxInFlight;
  line_.keep_result(place, count, starts_.buffer_pool());
}

void GroupWorker::abort_inner() {
  if (!place_.is_queued()) return;
  c10::intrusive_ptr<c10d::Backend> inner;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    inner = view_.inner;
  }
  if (inner != nullptr) inner->abort();
}

void GroupWorker::connect_inner(std::uint64_t epoch) {
  const InnerGroups before{view_.inner, view_.control};
  if (before.inner != nullptr) old_groups_.push_back(before);
  EpochView view;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    view_.inner = view_.control = nullptr;
    view_.sums = nullptr;
    view = next_view_;
  }
  const auto own = std::find(view.alive.begin(), view.alive.end(), place_.own);
  if (own == view.alive.end()) return report_failure(epoch, "this rank is no member any more");
  const auto position = static_cast<int>(own - view.alive.begin());
  const auto store = c10::make_intrusive<ProgramStore>(place_.store_path);
  const auto connecting = std::make_shared<Connecting>();
  std::thread([self = shared_from_this(), connecting, store, epoch, position, before,
               alive = view.alive] {
    const GroupPlace& place = self->place_;
    // The members tell the group apart from that of a process that is to join, which is alone.
    std::string prefix = "orrery/" + std::to_string(epoch) + "/" + place.key;
    for (const std::size_t member : alive) prefix += "/" + std::to_string(member);
    try {
      // Operations that still run on a device would keep it from new ones.
      if (place.is_queued() && before.inner != nullptr) before.inner->abort();
      connecting->groups =
          self->build_(place.backend, store, prefix, position, static_cast<int>(alive.size()),
                       place.timeout, text_of_address(address_of_group(place.key, epoch)));
      if (place.device_type == c10::kCPU && place.shares_sums) {
        connecting->sums =
            open_sums(*store, prefix + "/sums", static_cast<std::size_t>(position), alive.size());
      }
    } catch (const std::exception& error) {
      connecting->problem = error.what();
    }
    const std::lock_guard<std::mutex> lock(self->mutex_);
    connecting->has_ended = true;
    self->changed_.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return connecting->has_ended || member_.epoch() != epoch; });
  if (member_.epoch() != epoch) return store->abort_requests();
  if (connecting->groups.inner == nullptr) {
    lock.unlock();
    return report_failure(epoch, connecting->problem);
  }
  view.inner = connecting->groups.inner;
  view.control = connecting->groups.control;
  view.sums = connecting->sums;
  view_ = view;
  member_.finish_step(GroupStep::connect, epoch);
}

void GroupWorker::exchange_progress(std::uint64_t epoch) {
  GroupProgress own;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    own = member_.progress();
  }
  at::Tensor mine = at::empty({4}, at::kLong);
  mine.mutable_data_ptr<int64_t>()[0] = static_cast<int64_t>(own.begun);
  mine.mutable_data_ptr<int64_t>()[1] = static_cast<int64_t>(own.done);
  mine.mutable_data_ptr<int64_t>()[2] = view_.sums == nullptr ? 0 : 1;
  mine.mutable_data_ptr<int64_t>()[3] = getpid();
  std::vector<std::vector<at::Tensor>> all(1);
  for (std::size_t at = 0; at < view_.alive.size(); ++at) all[0].push_back(at::empty_like(mine));
  std::vector<at::Tensor> input{mine};
  if (!wait_for_work(view_.control->allgather(all, input), epoch)) return;
  std::vector<GroupProgress> progress;
  std::vector<int64_t> processes;
  bool share_memory = true;
  for (const at::Tensor& each : all[0]) {
    const int64_t* const counts = each.const_data_ptr<int64_t>();
    share_memory = share_memory && counts[2] == 1;
    progress.push_back(
        {static_cast<std::uint64_t>(counts[0]), static_cast<std::uint64_t>(counts[1])});
    processes.push_back(counts[3]);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!share_memory) view_.sums = nullptr;
    view_.starts_early = place_.starts_early && view_.sums == nullptr;
    view_.processes = processes;
    member_.accept_progress(progress, epoch);
    changed_.notify_all();  // wakes wait_until_settled()
  }
  if (is_settled()) send_news(MessageKind::settled, place_.key);
}

void GroupWorker::send_news(MessageKind kind, const std::string& text) {
  std::uint64_t epoch = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    epoch = program_epoch_;
  }
  control_.send_fields(message_of(kind, {std::to_string(epoch), text.substr(0, 2000)}));
}

void GroupWorker::deliver_result(std::uint64_t epoch) {
  std::shared_ptr<Operation> delivered;
  std::size_t giver = 0;
  bool lacks = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uint64_t owed = member_.owed(), done = member_.progress().done;
    giver = member_.giver();
    lacks = done < owed;
    delivered =
        lacks ? line_.in_flight(owed - 1 - member_.released()) : line_.kept_operation(done - owed);
  }
  Operation& operation = *delivered;
  starts_.enter_stream_of(operation);
  if (lacks) operation.buffers.clear();
  if (lacks && operation.prepare) operation.prepare(operation, starts_.buffer_pool());
  for (const at::Tensor& buffer : operation.buffers) {
    std::vector<at::Tensor> tensors{buffer};
    if (!wait_for_work(view_.inner->broadcast(tensors, broadcast_from(giver)), epoch)) {
      operation.is_reusable = false;  // the abandoned broadcast may still write
      return;
    }
  }
  finish_step(GroupStep::deliver, epoch);
  if (!is_settled()) return;  // another result is owed
  send_news(MessageKind::settled, place_.key);
  control_.confirm_leavers();
}

void GroupWorker::perform_operation(std::uint64_t epoch) {
  Operation& operation = *line_.in_flight(0);
  const bool is_early = operation.started_in == epoch;
  if (is_early) operation.begun_s = std::max(operation.begun_s, last_done_s_);
  if (operation.times != nullptr) {
    operation.times->begun_s = is_early ? operation.begun_s : clock_s();
  }
  const auto start = [&](Operation& self) {
    if (!is_early) starts_.start_operation(self, view_, epoch);
  };
  if (!perform_part(start, epoch)) return;
  operation.done_s = last_done_s_ = clock_s();
  const auto start_rest = [this](Operation& self) {
    self.works.clear();
    if (const auto work = self.perform_rest(self, view_)) self.works.push_back(work);
  };
  if (operation.perform_rest && !perform_part(start_rest, epoch)) return;
  if (operation.adjust) operation.adjust(operation, view_);
  finish_step(GroupStep::perform, epoch);
}

bool GroupWorker::perform_part(const std::function<void(Operation&)>& start, std::uint64_t epoch) {
  Operation& operation = *line_.in_flight(0);
  try {
    start(operation);
  } catch (const UncarriedOperation&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (member_.epoch() == epoch) member_.refuse_operation(operation.name);
    return false;
  } catch (const std::exception&) {  // refused by the inner group: a mistake of the program
    if (!is_newest(epoch)) return false;
    mistake_ = std::current_exception();
    finish_step(GroupStep::perform, epoch);
    return false;
  }
  bool succeeded = true;
  for (const auto& each : operation.works) succeeded = succeeded && wait_for_work(each, epoch);
  operation.works.clear();
  if (!succeeded && mistake_ != nullptr) finish_step(GroupStep::perform, epoch);
  return succeeded;
}

void GroupWorker::start_early(std::uint64_t epoch) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (member_.epoch() != epoch || !can_begin_early(line_, member_, view_)) return;
  Operation& next = begin_next(line_, member_);
  report_sharded(member_, place_.key, control_, lock);
  lock.unlock();
  ++records_.early_starts;
  try {
    starts_.start_operation(next, view_, epoch);
  } catch (const std::exception&) {
    next.works.clear();
  }
}

void GroupWorker::release_operation() {
  const std::shared_ptr<Operation> operation = line_.in_flight(0);
  if (mistake_ == nullptr && operation->publish) operation->publish(*operation);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    member_.finish_step(GroupStep::release, member_.epoch());
    line_.release_oldest();
    changed_.notify_all();  // wakes wait_until_idle()
  }
  operation->prepare = nullptr;  // drops the program's tensors
  operation->perform = nullptr;
  operation->perform_rest = nullptr;
  operation->adjust = nullptr;
  operation->publish = nullptr;
  if (operation->times != nullptr) operation->times->ended_s = clock_s();
  operation->work->complete_work(operation->result, std::exchange(mistake_, nullptr));
  operation->work = nullptr;
  operation->result.clear();
  control_.confirm_leavers();
}

bool GroupWorker::poll_work(const c10::intrusive_ptr<c10d::Work>& work, std::uint64_t epoch) {
  const auto begin = std::chrono::steady_clock::now();
  while (!work->isCompleted()) {
    start_early(epoch);
    const bool is_awake = std::chrono::steady_clock::now() - begin < kAwake;
    std::this_thread::sleep_for(is_awake ? std::chrono::microseconds(0) : kPoll);
    if (!is_newest(epoch)) return false;
  }
  std::string problem;
  try {
    if (const std::exception_ptr error = work->exception()) std::rethrow_exception(error);
    work->wait();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (problem.empty()) return true;
  report_failure(epoch, problem);
  return false;
}

bool GroupWorker::wait_for_work(const c10::intrusive_ptr<c10d::Work>& work, std::uint64_t epoch) {
  if (place_.is_queued()) return poll_work(work, epoch);
  struct Ended {
    bool has_ended = false;
    std::string problem;
  };
  const auto ended = std::make_shared<Ended>();
  const auto finish = [self = shared_from_this(), ended](const std::string& problem) {
    const std::lock_guard<std::mutex> lock(self->mutex_);
    ended->has_ended = true;
    ended->problem = problem;
    self->changed_.notify_all();
  };
  if (const auto future = future_of(work)) {
    future->addCallback([finish](c10::ivalue::Future& done) {
      finish(done.hasError() ? done.tryRetrieveErrorMessage() : std::string());
    });
  } else {
    std::thread([finish, work] { finish(problem_of(work)); }).detach();
  }
  std::string problem;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto has_news = [&] { return ended->has_ended || member_.epoch() != epoch; };
    while (true) {
      changed_.wait(lock, [&] { return has_news() || can_begin_early(line_, member_, view_); });
      if (has_news()) break;
      lock.unlock();
      start_early(epoch);
      lock.lock();
    }
    if (!ended->has_ended) return false;
    problem = ended->problem;
  }
  if (problem.empty()) return true;
  report_failure(epoch, problem);
  return false;
}

void GroupWorker::report_failure(std::uint64_t epoch, const std::string& problem) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (member_.epoch() != epoch) return;
    const bool timed_out = problem.find("Timed out") != std::string::npos;
    if (member_.next_step() == GroupStep::perform && (timed_out || ++failures_ > kMaxFailures)) {
      mistake_ =
          std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, problem));
      return;
    }
    member_.fail_step(epoch);
  }
  send_news(MessageKind::problem, problem);
}

}  // namespace orrery::live
