#include "live/checkpoint/format.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "live/checkpoint/key.hpp"

namespace orrery::live {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they are");

constexpr std::string_view kShardMagic = "ORRYSHRD", kManifestMagic = "ORRYMNFT";
constexpr std::size_t kHashSize = 64;
// magic, version, training, attempt, step, index, count, total, optimizer steps
constexpr std::size_t kShardHeaderSize = 8 + 4 + kHashSize + 8 + 8 + 4 + 4 + 8 + 8;
constexpr std::size_t kBytesPerElement = 3 * sizeof(float);

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_floats(std::string& bytes, const std::vector<float>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

void put_head(std::string& bytes, std::string_view magic, const CheckpointId& id,
              std::uint32_t version = kCheckpointVersion) {
  ensure(id.training.size() == kHashSize, "a training is named by a SHA-256");
  bytes.append(magic);
  put(bytes, version);
  bytes.append(id.training);
  put(bytes, id.attempt);
  put(bytes, id.step);
}

std::string sealing(std::string_view bytes, std::string_view key) {
  return key.empty() ? sha256_hex(bytes) : hmac_sha256_hex(key, bytes);
}

/// Takes a file apart from its beginning; the checksum has been looked at by then.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name, std::string_view key = {})
      : rest_(bytes), name_(name), key_(key) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::bad_input, fmt::format("{}: {}", name_, why));
  }

  CheckpointId take_head(std::string_view magic, const char* kind) {
    if (!rest_.starts_with(magic)) refuse(fmt::format("not {} of Orrery", kind));
    rest_.remove_prefix(magic.size());
    const auto version = take<std::uint32_t>();
    if (key_.empty() && version == kKeyedVersion && magic == kManifestMagic) {
      refuse("is authenticated, and its key is not given (checkpoints.key)");
    }
    if (!key_.empty() && version == kCheckpointVersion) {
      refuse("is not authenticated, and a key is given (checkpoints.key)");
    }
    if (version != (key_.empty() ? kCheckpointVersion : kKeyedVersion)) {
      refuse(fmt::format("has format version {}; this program reads version {}", version,
                         kCheckpointVersion));
    }
    check_sum();
    CheckpointId id;
    id.training = take_hash();
    id.attempt = take<std::uint64_t>();
    id.step = take<std::uint64_t>();
    return id;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string take_hash() {
    const std::string_view text = take(kHashSize);
    const bool hex = text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    if (!hex) refuse("a hash in it is not one");
    return std::string(text);
  }

  std::vector<float> take_floats(std::size_t count) {
    std::vector<float> values(count);
    const std::string_view bytes = take(count * sizeof(float));
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view take(std::size_t size) {
    if (rest_.size() < size) refuse("is cut short");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  void check_sum() {
    if (rest_.size() < kHashSize) refuse("is cut short");
    rest_.remove_suffix(kHashSize);
    const std::string_view content = whole_.substr(0, whole_.size() - kHashSize);
    if (sealing(content, key_) == whole_.substr(content.size())) return;
    refuse(key_.empty() ? "is cut short or damaged: its checksum is another"
                        : "is damaged, or was written with another key");
  }

  std::string_view rest_;
  const std::string_view whole_ = rest_;
  const std::string& name_;
  const std::string_view key_;
};

}  // namespace

Range part_of(std::size_t total, std::uint32_t index, std::uint32_t count) {
  ensure(index < count, "a part is one of its parts");
  const std::size_t each = total / count, more = total % count;
  const std::size_t begin = index * each + std::min<std::size_t>(index, more);
  return {begin, begin + each + (index < more ? 1 : 0)};
}

std::uint64_t shard_size(const ShardHeader& header) {
  return kShardHeaderSize + kBytesPerElement * header.range().size() + kHashSize;
}

std::string encode_shard(const ShardHeader& header, const TrainingState& part) {
  const std::size_t size = header.range().size();
  ensure(part.parameters.size() == size && part.mean.size() == size && part.square.size() == size,
         "a shard holds its part of everything");
  std::string bytes;
  bytes.reserve(shard_size(header));
  put_head(bytes, kShardMagic, header.id);
  put(bytes, header.index);
  put(bytes, header.count);
  put(bytes, header.total);
  put(bytes, part.optimizer_steps);
  put_floats(bytes, part.parameters);
  put_floats(bytes, part.mean);
  put_floats(bytes, part.square);
  return bytes;
}

std::string encode_manifest(const Manifest& manifest, bool keyed) {
  std::string bytes;
  put_head(bytes, kManifestMagic, manifest.id, keyed ? kKeyedVersion : kCheckpointVersion);
  put(bytes, manifest.total);
  put(bytes, static_cast<std::uint32_t>(manifest.shards.size()));
  for (const Seal& shard : manifest.shards) {
    put(bytes, shard.size);
    bytes.append(shard.sha256);
  }
  return bytes;
}

Seal seal(std::string& bytes, std::string_view key) {
  const std::string hash = sealing(bytes, key);
  bytes.append(hash);
  return {.size = bytes.size(), .sha256 = hash};
}

Shard parse_shard(std::string_view bytes, const std::string& name) {
  Reader reader(bytes, name);
  Shard shard;
  ShardHeader& header = shard.header;
  header.id = reader.take_head(kShardMagic, "a checkpoint's shard");
  header.index = reader.take<std::uint32_t>();
  header.count = reader.take<std::uint32_t>();
  header.total = reader.take<std::uint64_t>();
  shard.part.optimizer_steps = reader.take<std::uint64_t>();
  if (header.count > kMostShards || header.index >= header.count) {
    reader.refuse(fmt::format("says that it is shard {} of {}", header.index, header.count));
  }
  const std::size_t elements = header.range().size();
  if (reader.left() % kBytesPerElement != 0 || reader.left() / kBytesPerElement != elements) {
    reader.refuse(fmt::format("has {} bytes for {} parameters", reader.left(), elements));
  }
  shard.part.parameters = reader.take_floats(elements);
  shard.part.mean = reader.take_floats(elements);
  shard.part.square = reader.take_floats(elements);
  return shard;
}

Manifest parse_manifest(std::string_view bytes, const std::string& name, std::string_view key) {
  Reader reader(bytes, name, key);
  Manifest manifest;
  manifest.id = reader.take_head(kManifestMagic, "a checkpoint's manifest");
  manifest.total = reader.take<std::uint64_t>();
  const auto count = reader.take<std::uint32_t>();
  constexpr std::size_t kEntry = sizeof(std::uint64_t) + kHashSize;
  if (count == 0 || count > kMostShards || reader.left() != count * kEntry) {
    reader.refuse(fmt::format("has {} bytes for {} shards", reader.left(), count));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    Seal& shard = manifest.shards.emplace_back();
    shard.size = reader.take<std::uint64_t>();
    shard.sha256 = reader.take_hash();
  }
  return manifest;
}

}  // namespace orrery::live
