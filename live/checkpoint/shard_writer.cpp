#include "live/checkpoint/shard_writer.hpp"

#include <exception>
#include <utility>

#include "core/error.hpp"
#include "live/checkpoint/archive.hpp"

namespace orrery::live {

ShardWriter::ShardWriter(OpenStore open, Done done)
    : open_(std::move(open)), done_(std::move(done)), thread_([this] { run(); }) {}

ShardWriter::~ShardWriter() {
  const std::scoped_lock lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void ShardWriter::write(const ShardHeader& header, TrainingState part, PartChecksums state,
                        OpenStore open) {
  const Checksum content = checksum_of(part, header.range().begin);
  {
    const std::scoped_lock lock(mutex_);
    if (!order_) {
      order_ = {header, std::move(part), {std::move(state), content}, std::move(open)};
      changed_.notify_all();
      return;
    }
  }
  done_({.header = header,
         .proof = {},
         .seal = {},
         .failure = "the checkpoint before is still being written"});
}

void ShardWriter::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !order_; });
}

void ShardWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || order_; });
    if (!order_) return;
    lock.unlock();  // nobody touches an order while it is there
    done_(carry_out(*order_));
    lock.lock();
    order_.reset();
    changed_.notify_all();
  }
}

ShardOutcome ShardWriter::carry_out(const Order& order) const {
  ShardOutcome outcome{.header = order.header, .proof = order.proof, .seal = {}, .failure = {}};
  try {
    const auto store = order.open ? order.open() : open_();
    std::string bytes = encode_shard(order.header, order.part);
    if (checksum_of(order.part, order.header.range().begin) != order.proof.content) {
      throw Error(ErrorKind::environment,
                  "expected the copy of the shard in memory unchanged, found another one: the "
                  "memory of this machine is damaged; check the machine");
    }
    outcome.seal = CheckpointArchive(*store).write_shard(order.header, std::move(bytes));
  } catch (const std::exception& error) {  // also too little memory: training goes on
    outcome.failure = error.what();
  }
  return outcome;
}

}  // namespace orrery::live
