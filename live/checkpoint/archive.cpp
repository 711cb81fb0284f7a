#include "live/checkpoint/archive.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kShortName = 16;  // hex digits of a training in a file's name
constexpr std::string_view kManifest = "manifest", kUnfinished = ".part";
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{16} << 20;

/// Returns the common begin of the names of all files of an attempt.
std::string stem(const CheckpointId& id) {
  return fmt::format("step-{:012}.{}.{:016x}.", id.step,
                     std::string_view(id.training).substr(0, kShortName), id.attempt);
}

std::string manifest_name(const CheckpointId& id) { return stem(id) + std::string(kManifest); }

std::string shard_name(const CheckpointId& id, std::uint32_t index, std::size_t count) {
  return fmt::format("{}shard-{}-of-{}", stem(id), index, count);
}

/// The text up to the next dot, which goes too.
std::string_view take_part(std::string_view& text) {
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view part = text.substr(0, dot);
  text.remove_prefix(std::min(dot + 1, text.size()));
  return part;
}

bool read_number(std::string_view text, int base, std::uint64_t& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return failure == std::errc() && end == text.data() + text.size();
}

/// The attempt that a file of that name belongs to.
std::optional<CheckpointId> attempt_of(std::string_view name, const std::string& training) {
  constexpr std::string_view kStep = "step-";
  CheckpointId id{.training = training};
  const std::string_view whole = name;
  std::string_view step = take_part(name);
  if (!step.starts_with(kStep)) return std::nullopt;
  step.remove_prefix(kStep.size());
  take_part(name);  // the training: compared with the whole below
  if (!read_number(step, 10, id.step) || !read_number(take_part(name), 16, id.attempt)) {
    return std::nullopt;
  }
  return whole.starts_with(stem(id)) ? std::optional(id) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorKind::bad_input, fmt::format("{}: {}", file, why));
}

}  // namespace

void CheckpointArchive::write_durably(const std::string& name, std::string_view bytes) {
  const std::string unfinished = name + std::string(kUnfinished);
  try {
    const auto file = store_.create_file(unfinished);
    file->write(bytes);
    file->sync();
    store_.rename(unfinished, name);
  } catch (...) {
    try {
      store_.remove_file(unfinished);  // it may fill a full disk
    } catch (const Error&) {           // the first cause counts
    }
    throw;
  }
  store_.sync_names();
}

Seal CheckpointArchive::write_shard(const ShardHeader& header, std::string unsealed) {
  const Seal sealed = seal(unsealed);
  write_durably(shard_name(header.id, header.index, header.count), unsealed);
  return sealed;
}

void CheckpointArchive::commit_manifest(const Manifest& manifest) {
  std::string bytes = encode_manifest(manifest, !key_.empty());
  seal(bytes, key_);
  write_durably(manifest_name(manifest.id), bytes);
}

void CheckpointArchive::remove_attempt(const CheckpointId& id) {
  const std::vector<std::string> names = store_.list();
  const std::string manifest = manifest_name(id);
  if (std::find(names.begin(), names.end(), manifest) != names.end()) {
    store_.remove_file(manifest);
    // durable before any shard is deleted: without a manifest no checkpoint exists
    store_.sync_names();
  }
  for (const std::string& name : names) {
    if (name.starts_with(stem(id)) && name != manifest) store_.remove_file(name);
  }
  store_.sync_names();
}

std::vector<CheckpointId> CheckpointArchive::attempts(const std::string& training,
                                                      bool with_manifest) {
  std::map<std::pair<Step, std::uint64_t>, bool> found;
  for (const std::string& name : store_.list()) {
    const auto id = attempt_of(name, training);
    if (id) found[{id->step, id->attempt}] |= name == manifest_name(*id);
  }
  std::vector<CheckpointId> ids;
  for (const auto& [key, manifest] : found) {
    if (manifest == with_manifest) ids.push_back({training, key.first, key.second});
  }
  return ids;
}

std::vector<CheckpointId> CheckpointArchive::committed_attempts(const std::string& training) {
  return attempts(training, true);
}

std::vector<CheckpointId> CheckpointArchive::unfinished(const std::string& training) {
  return attempts(training, false);
}

Manifest CheckpointArchive::manifest(const CheckpointId& id) {
  const std::string name = manifest_name(id);
  Manifest manifest = parse_manifest(store_.read(name, kMostManifestBytes), name, key_);
  if (manifest.id != id) refuse(name, "belongs to another checkpoint than its name");
  return manifest;
}

std::uint64_t CheckpointArchive::size(const CheckpointId& id) {
  std::uint64_t bytes = 0;
  for (const Seal& shard : manifest(id).shards) bytes += shard.size;
  return bytes;
}

void CheckpointArchive::visit(const CheckpointId& id, std::uint64_t total,
                              const std::function<void(const Shard&)>& visitor) {
  const Manifest manifest = this->manifest(id);
  if (manifest.total != total) {
    refuse(manifest_name(id),
           fmt::format("the model has {} parameters, this one {}", manifest.total, total));
  }
  std::optional<std::uint64_t> optimizer_steps;
  const auto count = static_cast<std::uint32_t>(manifest.shards.size());
  for (std::uint32_t index = 0; index < count; ++index) {
    const Seal& expected = manifest.shards[index];
    const std::string file = shard_name(id, index, count);
    const std::string bytes = store_.read(file, expected.size);
    const std::string place = fmt::format("{} (shard of rank {} of {})", file, index, count);
    if (bytes.size() != expected.size || !bytes.ends_with(expected.sha256)) {
      refuse(place, "is not the shard that the manifest means");
    }
    const Shard shard = parse_shard(bytes, place);
    if (!optimizer_steps) optimizer_steps = shard.part.optimizer_steps;
    const ShardHeader wanted{.id = id, .index = index, .count = count, .total = total};
    const bool fits = shard.header == wanted && shard.part.optimizer_steps == *optimizer_steps;
    if (!fits) refuse(place, "belongs to another checkpoint than its name");
    visitor(shard);
  }
}

void CheckpointArchive::check_whole(const CheckpointId& id, std::uint64_t total) {
  visit(id, total, [](const Shard&) {});
}

TrainingState CheckpointArchive::load(const CheckpointId& id, std::uint64_t total) {
  TrainingState state;
  visit(id, total, [&](const Shard& shard) {  // shards come by index, one part after the other
    state.optimizer_steps = shard.part.optimizer_steps;
    const auto append = [](std::vector<float>& all, const std::vector<float>& part) {
      all.insert(all.end(), part.begin(), part.end());
    };
    append(state.parameters, shard.part.parameters);
    append(state.mean, shard.part.mean);
    append(state.square, shard.part.square);
  });
  return state;
}

CheckpointArchive::Search CheckpointArchive::search_newest(const std::string& training,
                                                           std::uint64_t total) {
  Search result;
  std::vector<CheckpointId> ids = committed_attempts(training);
  for (auto id = ids.rbegin(); id != ids.rend() && !result.newest; ++id) {
    try {
      check_whole(*id, total);
      result.newest = *id;
    } catch (const Error& error) {  // also a shard that is missing or cannot be read
      result.passed_over.push_back(error.message());
    }
  }
  return result;
}

}  // namespace orrery::live
