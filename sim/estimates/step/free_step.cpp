#include "sim/estimates/step/free_step.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace orrery::estimates {
namespace {

/// Queue of the data sent to a stage for the passes of one direction and chunk, and not received
/// yet: for each micro-batch its number and the arrivals by class. Both sides of every schedule run
/// the micro-batches of a chunk in the same order.
class Inbox {
 public:
  /// Adds the data of a micro-batch. Returns the place of the arrivals, one for each class, which
  /// the caller writes before the next call.
  double* add_data(std::uint32_t micro_batch, std::uint32_t classes) {
    if (end_ + 1 + classes > values_.size()) make_room(1 + std::size_t{classes});
    const std::size_t at = end_ + 1;
    end_ = at + classes;
    values_[at - 1] = micro_batch;
    return &values_[at];
  }
  /// Returns the arrivals of the first data, which are those of `micro_batch`; null if no data were
  /// sent. Throws an internal Error for another micro-batch.
  const double* first(std::uint32_t micro_batch) const {
    if (first_ == end_) return nullptr;
    if (values_[first_] != micro_batch) {
      ensure(false, "stages run micro-batches in the same order");
    }
    return &values_[first_] + 1;
  }
  void remove_first(std::uint32_t classes) { first_ += 1 + std::size_t{classes}; }

 private:
  /// Moves the queue to the front if that leaves half of the room: a queue that stays short stays
  /// in the processor's cache.
  void make_room(std::size_t more) {
    std::copy(values_.begin() + static_cast<std::ptrdiff_t>(first_),
              values_.begin() + static_cast<std::ptrdiff_t>(end_), values_.begin());
    end_ -= std::exchange(first_, 0);
    if (2 * (end_ + more) > values_.size()) values_.resize(4 * (end_ + more));
  }

  std::vector<double> values_;  ///< the queue is the part from `first_` to `end_`
  std::size_t first_ = 0, end_ = 0;
};

/// Progress of a stage's program; all classes of replicas run the program in the same order.
struct Stage {
  std::unique_ptr<ProgramReader> reader;
  ProgramReader::Part part;   ///< newest part: its pass, or its operations from the next one on
  std::vector<OpKind> kinds;  ///< kinds of the operations that have run, by number
  std::vector<double> end;    ///< end by number of operation x class
  std::vector<Inbox> forward, backward;  ///< data from other stages, by chunk
  std::vector<FreeTime> onward, back;    ///< cost by class, to the stages after and before
  /// Cost by communicator and kind, as far as known.
  std::array<std::array<std::optional<FreeTime>, 4>, 7> collectives;
  double idle_since = 0;  ///< end of the first class's last block

  Inbox& inbox(Phase phase, std::uint32_t chunk) {
    return (phase == Phase::forward ? forward : backward)[chunk];
  }
  /// Returns the newest ends by class: those of blocks, behind them those of sends, and behind
  /// these those of reductions.
  double* newest_blocks() { return end.data(); }
};

/// Attributes the time of a block.
void add_block(StageTime& time, const BlockPrice& price, Phase phase) {
  time.compute += price.compute.value;
  time.products += price.products.value;
  time.memory += price.memory.value;
  const bool host = phase == Phase::optimizer;  // time after the kernels belongs to the host
  (host ? time.compute : time.inside) += price.tensor.value;
}

/// Walk over the programs of all stages. `kClasses`: number of classes of replicas, if the compiler
/// is to know it (most steps have one class, whose loops then are none); 0: that of the request.
template <std::uint32_t kClasses>
class Walk {
 public:
  explicit Walk(const FreeStepRequest& request)
      : in_(request),
        any_classes_(request.classes),
        read_interval_(request.graph.read_interval().value) {}
  FreeStep run();

 private:
  void prepare(std::uint32_t number);
  bool advance(std::uint32_t number);
  bool run_pass(std::uint32_t number, const PlainPass& pass);
  void reduce_gradients(std::uint32_t number, const PlainPass& pass);
  void send_result(std::uint32_t number, const PlainPass& pass);
  bool run_op(std::uint32_t number, const Op& op);
  void compute(std::uint32_t number, const Op& op);
  void account(std::uint32_t number, const Op& op, double start);
  void send(std::uint32_t number, const Op& op);
  bool receive(Stage& stage, const Op& op);
  void collective(std::uint32_t number, const Op& op);
  double ready(const Stage& stage, const Op& op, std::uint32_t of_class) const {
    double start = 0;
    for (const std::uint32_t before : op.after) {
      start = std::max(start, stage.end[std::size_t{before} * classes() + of_class]);
    }
    return start;
  }
  double* newest_sends(Stage& stage) const { return stage.end.data() + classes(); }
  const FreeTime& collective_time(std::uint32_t number, Communicator which, OpCollective kind);

  std::uint32_t classes() const { return kClasses > 0 ? kClasses : any_classes_; }

  const FreeStepRequest& in_;
  const std::uint32_t any_classes_;
  const double read_interval_;
  std::vector<Stage> stages_;
  FreeStep out_;
};

template <std::uint32_t kClasses>
FreeStep Walk<kClasses>::run() {
  const std::uint32_t count = in_.graph.pipeline();
  stages_.resize(count);
  out_.stages.resize(count);
  for (std::uint32_t number = 0; number < count; ++number) prepare(number);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t number = 0; number < count; ++number) moved = advance(number) || moved;
  }
  for (const Stage& stage : stages_) {
    ensure(stage.part.empty(), "every operation of a training step runs");
    // An older block or send ends before a newer block, here or where the send is received.
    for (const double end : stage.end) out_.duration = std::max(out_.duration, end);
  }
  for (std::uint32_t number = 0; number < count; ++number) {
    const double rest = out_.duration - stages_[number].idle_since;
    const bool gathers = stages_[number].kinds.back() == OpKind::collective;
    (gathers ? out_.stages[number].exposed : out_.stages[number].pipeline) += rest;
  }
  return std::move(out_);
}

template <std::uint32_t kClasses>
void Walk<kClasses>::prepare(std::uint32_t number) {
  const StepGraph& graph = in_.graph;
  const std::uint32_t count = graph.pipeline();
  Stage& stage = stages_[number];
  stage.reader = graph.read_program(number, in_.micro_batches);
  stage.reader->read_part(stage.part);
  static_assert(ProgramReader::kNewestBlock == 0 && ProgramReader::kNewestSend == 1 &&
                ProgramReader::kNewestReduction == 2);
  stage.kinds = {OpKind::compute, OpKind::send, OpKind::collective};
  stage.end.resize(stage.kinds.size() * classes());
  stage.forward.resize(graph.chunks());
  stage.backward.resize(graph.chunks());
  const bool around = graph.chunks() > 1 && count > 1;
  for (std::uint32_t c = 0; c < classes(); ++c) {
    const std::uint32_t next = (number + 1) % count, before = (number + count - 1) % count;
    const bool onward = around || number + 1 < count, back = around || number > 0;
    stage.onward.push_back(onward ? in_.transfer(c, number, next) : FreeTime{});
    stage.back.push_back(back ? in_.transfer(c, number, before) : FreeTime{});
  }
}

/// Runs a stage until it needs data that another stage has not sent yet. Returns true if the stage
/// advanced.
template <std::uint32_t kClasses>
bool Walk<kClasses>::advance(std::uint32_t number) {
  Stage& stage = stages_[number];
  ProgramReader::Part& part = stage.part;
  bool advanced = false;
  for (; !part.empty(); stage.reader->read_part(part)) {
    if (part.pass != nullptr && !run_pass(number, *part.pass)) return advanced;
    for (; !part.ops.empty(); part.ops = part.ops.subspan(1)) {
      const Op& op = part.ops.front();
      if (!run_op(number, op)) return advanced;
      stage.kinds.push_back(op.kind);
      advanced = true;
    }
    advanced = true;
  }
  return advanced;
}

/// Runs a receive, blocks, reductions and a send. Returns false if the data to receive are not
/// sent.
template <std::uint32_t kClasses>
bool Walk<kClasses>::run_pass(std::uint32_t number, const PlainPass& pass) {
  Stage& stage = stages_[number];
  const double* arrived = nullptr;
  if (pass.receives) {
    arrived = stage.inbox(pass.phase, pass.chunk).first(pass.micro_batch);
    if (arrived == nullptr) return false;
  }
  const BlockPrice& price = in_.prices[pass.block];
  double* const blocks = stage.newest_blocks();
  // The ends that a block need not wait for are replaced by those that it waits for anyway.
  const double* const sent = pass.after_send ? newest_sends(stage) : blocks;
  if (arrived == nullptr) arrived = blocks;
  const double start = std::max({blocks[0], sent[0], arrived[0]});
  if (start > stage.idle_since) out_.stages[number].pipeline += start - stage.idle_since;
  const double compute = price.compute.value, tensor = price.tensor.value;
  for (std::uint32_t c = 0; c < classes(); ++c) {
    blocks[c] = std::max(std::max(blocks[c], sent[c]), arrived[c]) + compute + tensor;
  }
  add_block(out_.stages[number], price, pass.phase);
  if (!pass.reductions.empty()) reduce_gradients(number, pass);
  stage.idle_since = blocks[0];
  if (pass.receives) stage.inbox(pass.phase, pass.chunk).remove_first(classes());
  if (pass.sends) send_result(number, pass);
  return true;
}

/// Runs the reductions of a plain pass, which begin when all classes have reached them, and the
/// blocks beside them.
template <std::uint32_t kClasses>
void Walk<kClasses>::reduce_gradients(std::uint32_t number, const PlainPass& pass) {
  Stage& stage = stages_[number];
  const FreeTime& time = collective_time(number, Communicator::shard, OpCollective::reduce_scatter);
  double* const blocks = stage.newest_blocks();
  double newest = 0;  // end of the reduction before
  if (pass.reduces_after) {
    const double* const ends = &stage.end[std::size_t{*pass.reduces_after} * classes()];
    newest = *std::max_element(ends, ends + classes());
  }
  for (const PassReduction& each : pass.reductions) {
    if (each.bytes.value > 0) {
      const double start = std::max(newest, *std::max_element(blocks, blocks + classes()));
      newest = start + each.bytes.value * time.each + time.latency;
    }
    if (!each.next_block) continue;
    const BlockPrice& price = in_.prices[*each.next_block];
    for (std::uint32_t c = 0; c < classes(); ++c) {
      blocks[c] = blocks[c] + price.compute.value + price.tensor.value;
    }
    add_block(out_.stages[number], price, pass.phase);
  }
  std::fill_n(&stage.end[std::size_t{ProgramReader::kNewestReduction} * classes()], classes(),
              newest);
}

/// Sends the result of a plain pass: forward to the next stage, whose first one has another chunk.
template <std::uint32_t kClasses>
void Walk<kClasses>::send_result(std::uint32_t number, const PlainPass& pass) {
  Stage& stage = stages_[number];
  const auto count = static_cast<std::uint32_t>(stages_.size());
  const bool forward = pass.phase == Phase::forward;
  const std::uint32_t next = number + 1 == count ? 0 : number + 1;
  const std::uint32_t before = number == 0 ? count - 1 : number - 1;
  const std::uint32_t to = forward ? next : before;
  std::uint32_t chunk = pass.chunk;
  if (forward && to == 0) ++chunk;
  if (!forward && number == 0) --chunk;
  const FreeTime* const times = (forward ? stage.onward : stage.back).data();
  const double* const blocks = stage.newest_blocks();
  double* const sends = newest_sends(stage);
  double* const arrivals =
      stages_[to].inbox(pass.phase, chunk).add_data(pass.micro_batch, classes());
  for (std::uint32_t c = 0; c < classes(); ++c) {
    sends[c] = blocks[c] + pass.bytes.value * times[c].each + times[c].latency;
    arrivals[c] = sends[c];
  }
}

/// Appends the ends of an operation, by class. Returns false for a receive whose data are not sent.
template <std::uint32_t kClasses>
bool Walk<kClasses>::run_op(std::uint32_t number, const Op& op) {
  Stage& stage = stages_[number];
  switch (op.kind) {
    case OpKind::compute: compute(number, op); break;
    case OpKind::send: send(number, op); break;
    case OpKind::collective: collective(number, op); break;
    case OpKind::receive: return receive(stage, op);
    case OpKind::read:
      for (std::uint32_t c = 0; c < classes(); ++c) {
        stage.end.push_back(ready(stage, op, c) + read_interval_);
      }
      break;
  }
  return true;
}

template <std::uint32_t kClasses>
void Walk<kClasses>::compute(std::uint32_t number, const Op& op) {
  Stage& stage = stages_[number];
  const BlockPrice& price = in_.prices[op.block];
  const std::size_t at = stage.end.size();
  for (std::uint32_t c = 0; c < classes(); ++c) {
    const double start = ready(stage, op, c);
    if (c == 0) account(number, op, start);
    double end = start + price.compute.value;
    if (price.tensor.value != 0) end += price.tensor.value;
    stage.end.push_back(end);
  }
  std::copy_n(&stage.end[at], classes(), stage.newest_blocks());
  stage.idle_since = stage.end[at];
}

/// Attributes the first class's wait before a block, and the block.
template <std::uint32_t kClasses>
void Walk<kClasses>::account(std::uint32_t number, const Op& op, double start) {
  Stage& stage = stages_[number];
  StageTime& time = out_.stages[number];
  add_block(time, in_.prices[op.block], op.phase);
  const double waited = start - stage.idle_since;
  if (waited <= 0) return;
  for (const std::uint32_t before : op.after) {
    if (stage.end[std::size_t{before} * classes()] < start) continue;
    switch (stage.kinds[before]) {
      case OpKind::collective: time.exposed += waited; break;
      case OpKind::read: time.input += waited; break;
      default: time.pipeline += waited; break;
    }
    return;
  }
}

template <std::uint32_t kClasses>
void Walk<kClasses>::send(std::uint32_t number, const Op& op) {
  Stage& stage = stages_[number];
  const auto to = static_cast<std::uint32_t>(op.peer_stage);
  // Both stages of a pair are each other's next and previous one, over the same links.
  const bool goes_on =
      to == number + 1 || (stages_.size() > 2 && number + 1 == stages_.size() && to == 0);
  double* const arrivals =
      stages_[to].inbox(op.phase, op.chunk).add_data(op.micro_batch, classes());
  for (std::uint32_t c = 0; c < classes(); ++c) {
    const FreeTime& time = (goes_on ? stage.onward : stage.back)[c];
    const double end = ready(stage, op, c) + op.bytes.value * time.each + time.latency;
    stage.end.push_back(end);
    newest_sends(stage)[c] = end;
    arrivals[c] = end;
  }
}

template <std::uint32_t kClasses>
bool Walk<kClasses>::receive(Stage& stage, const Op& op) {
  Inbox& from = stage.inbox(op.phase, op.chunk);
  const double* const arrived = from.first(op.micro_batch);
  if (arrived == nullptr) return false;
  for (std::uint32_t c = 0; c < classes(); ++c) {
    stage.end.push_back(std::max(ready(stage, op, c), arrived[c]));
  }
  from.remove_first(classes());
  return true;
}

/// A collective begins when all classes have reached it.
template <std::uint32_t kClasses>
void Walk<kClasses>::collective(std::uint32_t number, const Op& op) {
  Stage& stage = stages_[number];
  double start = 0;
  for (std::uint32_t c = 0; c < classes(); ++c) start = std::max(start, ready(stage, op, c));
  const FreeTime& time = collective_time(number, op.communicator, op.collective);
  const double end = start + op.bytes.value * time.each + time.latency;
  for (std::uint32_t c = 0; c < classes(); ++c) stage.end.push_back(end);
}

template <std::uint32_t kClasses>
const FreeTime& Walk<kClasses>::collective_time(std::uint32_t number, Communicator which,
                                                OpCollective kind) {
  std::optional<FreeTime>& time =
      stages_[number].collectives[static_cast<std::size_t>(which)][static_cast<std::size_t>(kind)];
  if (!time) time = in_.collective(number, which, kind);
  return *time;
}

}  // namespace

FreeStep free_step(const FreeStepRequest& request) {
  return request.classes == 1 ? Walk<1>(request).run() : Walk<0>(request).run();
}

}  // namespace orrery::estimates
