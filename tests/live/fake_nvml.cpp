// A libnvidia-ml.so.1 of two GPUs for the tests: the second knows only its name and its memory, as
// drivers of other GPUs do. NVML's own interface, as documented.
#include <cstdio>
#include <cstring>

namespace {

int devices[2];
int events_made = 0;
bool xid_pending = true;
constexpr int kOk = 0, kNotSupported = 3, kNotFound = 6, kTimeout = 10;

bool first(const void* device) { return device == &devices[0]; }

template <class Value>
int answer(const void* device, Value* out, Value value) {
  if (!first(device)) return kNotSupported;
  *out = value;
  return kOk;
}

struct Pair { unsigned gpu, memory; };
struct Memory { unsigned long long total, free, used; };
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {
int nvmlInit_v2() { return kOk; }
int nvmlShutdown() { return kOk; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.0.fake");
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return kNotFound;
  *device = &devices[index];
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (std::strcmp(address, "0000:18:00.0") != 0) return kNotFound;
  *device = &devices[1];
  return kOk;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = first(device) ? 0 : 1;
  return kOk;
}
int nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::snprintf(name, size, "Fake GPU");
  return kOk;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (!first(device) || link > 3) return kNotSupported;
  *active = link == 2 ? 0 : 1;
  return kOk;
}
int nvmlDeviceGetUtilizationRates(void* device, Pair* out) {
  return answer(device, out, Pair{75, 40});
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
  *out = {.total = 8ull << 30, .free = 5ull << 30, .used = 3ull << 30};
  return kOk;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* out) { return answer(device, out, 321'500u); }
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* out) {
  return answer(device, out, 9'000'000ull);
}
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* out) {
  return sensor == 0 ? answer(device, out, 61u) : kNotSupported;
}
int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* out) {
  return answer(device, out, type == 1 ? 1980u : type == 2 ? 3201u : 0u);
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned counter,
                                unsigned long long* out) {
  return type == 1 && counter == 0 ? answer(device, out, 2ull) : kNotSupported;
}
int nvmlEventSetCreate(void** set) {
  *set = &events_made;
  xid_pending = true;  // one error, right after somebody listens
  return kOk;
}
int nvmlEventSetFree(void*) { return kOk; }
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {
  return types == 8 ? kOk : kNotSupported;
}
int nvmlEventSetWait_v2(void*, Event* out, unsigned) {
  if (!xid_pending) return kTimeout;
  xid_pending = false;
  *out = {.device = &devices[1], .type = 8, .data = 79, .gpu_instance = 0, .compute_instance = 0};
  return kOk;
}
}
