#include "sim/estimates/step/free_step.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::estimates {
namespace {

constexpr double kNotYet = -1;

/// Progress of a stage's program; all classes of replicas run the program in the same order.
struct Stage {
  const std::vector<Op>* ops = nullptr;
  std::size_t next = 0;
  std::vector<double> end;      ///< end by operation x class
  /// Arrival by (pass, chunk, micro-batch) x class of data from other stages.
  std::vector<double> arrived;
  std::vector<FreeTime> onward, back;  ///< cost by class, to the stages after and before
  double idle_since = 0;               ///< end of the first class's last block
};

class Walk {
 public:
  explicit Walk(const FreeStepRequest& request) : in_(request), classes_(request.classes) {}
  FreeStep run();

 private:
  std::size_t slot(const Op& op) const {
    const std::size_t each = std::size_t{in_.micro_batches} * in_.graph.chunks();
    const std::size_t pass = op.phase == Phase::forward ? 0 : each;
    return (pass + std::size_t{op.chunk} * in_.micro_batches + op.micro_batch) * classes_;
  }
  bool advance(std::uint32_t number);
  void compute(std::uint32_t number, const Op& op, std::size_t at);
  void account(std::uint32_t number, const Op& op, double start);
  void send(std::uint32_t number, const Op& op, std::size_t at);
  bool receive(Stage& stage, const Op& op, std::size_t at);
  void collective(std::uint32_t number, const Op& op, std::size_t at);
  double ready(const Stage& stage, const Op& op, std::uint32_t of_class) const {
    double start = 0;
    for (const std::uint32_t before : op.after) {
      start = std::max(start, stage.end[std::size_t{before} * classes_ + of_class]);
    }
    return start;
  }

  const FreeStepRequest& in_;
  const std::uint32_t classes_;
  std::vector<Stage> stages_;
  FreeStep out_;
};

FreeStep Walk::run() {
  StepGraph& graph = in_.graph;
  const std::uint32_t count = graph.pipeline();
  stages_.resize(count);
  out_.stages.resize(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    Stage& stage = stages_[number];
    stage.ops = &graph.program(number, in_.micro_batches).ops;
    stage.end.resize(stage.ops->size() * classes_);
    stage.arrived.assign(2 * std::size_t{in_.micro_batches} * graph.chunks() * classes_, kNotYet);
    const bool around = graph.chunks() > 1 && count > 1;
    for (std::uint32_t c = 0; c < classes_; ++c) {
      const std::uint32_t next = (number + 1) % count, before = (number + count - 1) % count;
      const bool onward = around || number + 1 < count, back = around || number > 0;
      stage.onward.push_back(onward ? in_.transfer(c, number, next) : FreeTime{});
      stage.back.push_back(back ? in_.transfer(c, number, before) : FreeTime{});
    }
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t number = 0; number < count; ++number) moved = advance(number) || moved;
  }
  for (std::uint32_t number = 0; number < count; ++number) {
    const Stage& stage = stages_[number];
    ensure(stage.next == stage.ops->size(), "every operation of a training step runs");
    for (const double end : stage.end) out_.duration = std::max(out_.duration, end);
  }
  for (std::uint32_t number = 0; number < count; ++number) {
    const double rest = out_.duration - stages_[number].idle_since;
    const bool gathers = stages_[number].ops->back().kind == OpKind::collective;
    (gathers ? out_.stages[number].exposed : out_.stages[number].pipeline) += rest;
  }
  return std::move(out_);
}

/// Runs a stage until it needs data that another stage has not sent yet. Returns true if the stage
/// advanced.
bool Walk::advance(std::uint32_t number) {
  Stage& stage = stages_[number];
  const std::size_t began = stage.next;
  for (; stage.next < stage.ops->size(); ++stage.next) {
    const Op& op = (*stage.ops)[stage.next];
    const std::size_t at = stage.next * classes_;
    switch (op.kind) {
      case OpKind::compute: compute(number, op, at); break;
      case OpKind::send: send(number, op, at); break;
      case OpKind::collective: collective(number, op, at); break;
      case OpKind::receive:
        if (!receive(stage, op, at)) return stage.next > began;
        break;
      case OpKind::read:
        for (std::uint32_t c = 0; c < classes_; ++c) {
          stage.end[at + c] = ready(stage, op, c) + in_.graph.read_interval().value;
        }
        break;
    }
  }
  return stage.next > began;
}

void Walk::compute(std::uint32_t number, const Op& op, std::size_t at) {
  Stage& stage = stages_[number];
  const BlockPrice& price = in_.prices[op.block];
  for (std::uint32_t c = 0; c < classes_; ++c) {
    const double start = ready(stage, op, c);
    if (c == 0) account(number, op, start);
    double end = start + price.compute.value;
    if (price.tensor.value != 0) end += price.tensor.value;
    stage.end[at + c] = end;
  }
  stage.idle_since = stage.end[at];
}

/// Attributes the first class's wait before a block, and the block.
void Walk::account(std::uint32_t number, const Op& op, double start) {
  Stage& stage = stages_[number];
  StageTime& time = out_.stages[number];
  const BlockPrice& price = in_.prices[op.block];
  time.compute += price.compute.value;
  time.products += price.products.value;
  time.memory += price.memory.value;
  const bool host = op.phase == Phase::optimizer;  // time after the kernels belongs to the host
  (host ? time.compute : time.inside) += price.tensor.value;
  const double waited = start - stage.idle_since;
  if (waited <= 0) return;
  for (const std::uint32_t before : op.after) {
    if (stage.end[std::size_t{before} * classes_] < start) continue;
    switch ((*stage.ops)[before].kind) {
      case OpKind::collective: time.exposed += waited; break;
      case OpKind::read: time.input += waited; break;
      default: time.pipeline += waited; break;
    }
    return;
  }
}

void Walk::send(std::uint32_t number, const Op& op, std::size_t at) {
  Stage& stage = stages_[number];
  const auto to = static_cast<std::uint32_t>(op.peer_stage);
  // Both stages of a pair are each other's next and previous one, over the same links.
  const bool goes_on =
      to == number + 1 || (stages_.size() > 2 && number + 1 == stages_.size() && to == 0);
  Stage& receiver = stages_[to];
  for (std::uint32_t c = 0; c < classes_; ++c) {
    const FreeTime& time = (goes_on ? stage.onward : stage.back)[c];
    const double end = ready(stage, op, c) + op.bytes.value * time.each + time.latency;
    stage.end[at + c] = end;
    receiver.arrived[slot(op) + c] = end;
  }
}

bool Walk::receive(Stage& stage, const Op& op, std::size_t at) {
  const double* arrived = &stage.arrived[slot(op)];
  if (*arrived == kNotYet) return false;
  for (std::uint32_t c = 0; c < classes_; ++c) {
    stage.end[at + c] = std::max(ready(stage, op, c), arrived[c]);
  }
  return true;
}

/// A collective begins when all classes have reached it.
void Walk::collective(std::uint32_t number, const Op& op, std::size_t at) {
  Stage& stage = stages_[number];
  double start = 0;
  for (std::uint32_t c = 0; c < classes_; ++c) start = std::max(start, ready(stage, op, c));
  const FreeTime time = in_.collective(number, op);
  const double end = start + op.bytes.value * time.each + time.latency;
  for (std::uint32_t c = 0; c < classes_; ++c) stage.end[at + c] = end;
}

}  // namespace

FreeStep free_step(const FreeStepRequest& request) { return Walk(request).run(); }

}  // namespace orrery::estimates
