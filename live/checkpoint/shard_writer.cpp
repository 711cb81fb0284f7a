#include "live/checkpoint/shard_writer.hpp"

#include <exception>
#include <utility>

#include "live/checkpoint/archive.hpp"

namespace orrery::live {

ShardWriter::ShardWriter(OpenStore open, Done done)
    : open_(std::move(open)), done_(std::move(done)), thread_([this] { run(); }) {}

ShardWriter::~ShardWriter() {
  const std::scoped_lock lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void ShardWriter::write(const ShardHeader& header, TrainingState part) {
  {
    const std::scoped_lock lock(mutex_);
    if (!order_) {
      order_ = {header, std::move(part)};
      changed_.notify_all();
      return;
    }
  }
  done_({.header = header, .seal = {}, .failure = "the checkpoint before is still being written"});
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
  ShardOutcome outcome{.header = order.header, .seal = {}, .failure = {}};
  try {
    const auto store = open_();
    outcome.seal = CheckpointArchive(*store).write_shard(order.header,
                                                         encode_shard(order.header, order.part));
  } catch (const std::exception& error) {  // also too little memory: training goes on
    outcome.failure = error.what();
  }
  return outcome;
}

}  // namespace orrery::live
