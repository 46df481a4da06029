// Another execution provider for the same card, as a stock one would be: it knows nothing of ours,
// is stream aware, and its kernels run on the stream that ONNX Runtime gives each run. It has one
// operator, Flatten, which copies on the card. OTHER_GPU_RUNTIME names the vendor's runtime. With
// OTHER_GPU_ONE_STREAM set all runs have one stream, as with a stock provider's
// user_compute_stream.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "abi/ort_c_api.h"

#define OTHER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr char kName[] = "OtherGpuExecutionProvider";
constexpr int kAnyDirection = 4;  // cudaMemcpyDefault, hipMemcpyDefault
constexpr unsigned kNonBlocking = 1;

const OrtApi* g_api = nullptr;
const OrtEpApi* g_ep_api = nullptr;
uint32_t g_version = 0;
std::atomic<int64_t> g_streams{0};
std::atomic<int64_t> g_kernels{0};
std::atomic<int64_t> g_transfers{0};

// What the two runtimes have in common.
struct Runtime {
  bool cuda = false;
  int (*Malloc)(void**, size_t) = nullptr;
  int (*Free)(void*) = nullptr;
  int (*MemcpyAsync)(void*, const void*, size_t, int, void*) = nullptr;
  int (*StreamCreate)(void**, unsigned) = nullptr;
  int (*StreamDestroy)(void*) = nullptr;
  int (*StreamSynchronize)(void*) = nullptr;
  int (*EventCreate)(void**, unsigned) = nullptr;
  int (*EventDestroy)(void*) = nullptr;
  int (*EventRecord)(void*, void*) = nullptr;
  int (*EventSynchronize)(void*) = nullptr;
  int (*StreamWaitEvent)(void*, void*, unsigned) = nullptr;

  bool Load() {
    const char* path = std::getenv("OTHER_GPU_RUNTIME");
    // The test that loads this says which simulated runtime it is.
    // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint)
    void* library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : nullptr;
    if (library == nullptr) return false;
    cuda = dlsym(library, "cudaMalloc") != nullptr;
    const std::string prefix = cuda ? "cuda" : "hip";
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      void* const symbol = dlsym(library, (prefix + name).c_str());
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
      all = all && symbol != nullptr;
    };
    find(Malloc, "Malloc");
    find(Free, "Free");
    find(MemcpyAsync, "MemcpyAsync");
    find(StreamCreate, "StreamCreateWithFlags");
    find(StreamDestroy, "StreamDestroy");
    find(StreamSynchronize, "StreamSynchronize");
    find(EventCreate, "EventCreateWithFlags");
    find(EventDestroy, "EventDestroy");
    find(EventRecord, "EventRecord");
    find(EventSynchronize, "EventSynchronize");
    find(StreamWaitEvent, "StreamWaitEvent");
    return all;
  }
  uint32_t vendor() const { return cuda ? 0x10DE : 0x1002; }
};
Runtime g_runtime;
OrtMemoryInfo* g_memory = nullptr;

OrtStatus* Check(int code, const char* what) {
  if (code == 0) return nullptr;
  return g_api->CreateStatus(ORT_FAIL, (std::string(what) + ": " + std::to_string(code)).c_str());
}

#define RETURN_IF_ERROR(expression) \
  if (OrtStatus* status_ = (expression); status_ != nullptr) return status_

struct Allocator : OrtAllocator {
  Allocator() : OrtAllocator{} {
    version = g_version;
    Alloc = [](OrtAllocator*, size_t size) { return Get(size); };
    Reserve = Alloc;
    AllocOnStream = [](OrtAllocator*, size_t size, OrtSyncStream*) { return Get(size); };
    Free = [](OrtAllocator*, void* memory) { g_runtime.Free(memory); };
    Info = [](const OrtAllocator*) { return static_cast<const OrtMemoryInfo*>(g_memory); };
  }
  static void* Get(size_t size) {
    void* memory = nullptr;
    return size > 0 && g_runtime.Malloc(&memory, size) == 0 ? memory : nullptr;
  }
};

struct Notification : OrtSyncNotificationImpl {
  explicit Notification(void* of) : OrtSyncNotificationImpl{}, stream(of) {
    ort_version_supported = g_version;
    g_runtime.EventCreate(&event, 0);
    Release = [](OrtSyncNotificationImpl* self) {
      g_runtime.EventDestroy(Of(self).event);
      delete &Of(self);
    };
    Activate = [](OrtSyncNotificationImpl* self) {
      return Check(g_runtime.EventRecord(Of(self).event, Of(self).stream), "EventRecord");
    };
    WaitOnDevice = [](OrtSyncNotificationImpl* self, OrtSyncStream* consumer) {
      return Check(
          g_runtime.StreamWaitEvent(g_api->SyncStream_GetHandle(consumer), Of(self).event, 0),
          "StreamWaitEvent");
    };
    WaitOnHost = [](OrtSyncNotificationImpl* self) {
      return Check(g_runtime.EventSynchronize(Of(self).event), "EventSynchronize");
    };
  }
  static Notification& Of(OrtSyncNotificationImpl* self) {
    return *static_cast<Notification*>(self);
  }
  void* stream;
  void* event = nullptr;
};

struct Stream : OrtSyncStreamImpl {
  Stream() : OrtSyncStreamImpl{} {
    ort_version_supported = g_version;
    handle = TheUsers();
    if (handle == nullptr) {
      g_runtime.StreamCreate(&handle, kNonBlocking);
      ++g_streams;
    }
    Release = [](OrtSyncStreamImpl* self) {
      if (Of(self).handle != TheUsers()) g_runtime.StreamDestroy(Of(self).handle);
      delete &Of(self);
    };
    GetHandle = [](OrtSyncStreamImpl* self) { return Of(self).handle; };
    CreateNotification = [](OrtSyncStreamImpl* self, OrtSyncNotificationImpl** out) -> OrtStatus* {
      *out = new Notification(Of(self).handle);
      return nullptr;
    };
    Flush = [](OrtSyncStreamImpl* self) {
      return Check(g_runtime.StreamSynchronize(Of(self).handle), "StreamSynchronize");
    };
    OnSessionRunEnd = [](OrtSyncStreamImpl*) -> OrtStatus* { return nullptr; };
  }
  static Stream& Of(OrtSyncStreamImpl* self) { return *static_cast<Stream*>(self); }
  // Null: each run has its own.
  static void* TheUsers() {
    static void* const stream = [] {
      void* made = nullptr;
      if (std::getenv("OTHER_GPU_ONE_STREAM") != nullptr) {
        g_runtime.StreamCreate(&made, kNonBlocking);
        ++g_streams;
      }
      return made;
    }();
    return stream;
  }
  void* handle = nullptr;
};

struct Transfer : OrtDataTransferImpl {
  Transfer() : OrtDataTransferImpl{} {
    ort_version_supported = g_version;
    Release = [](OrtDataTransferImpl* self) { delete static_cast<Transfer*>(self); };
    CanCopy = [](const OrtDataTransferImpl*, const OrtMemoryDevice* from,
                 const OrtMemoryDevice* to) {
      const auto ours = [](const OrtMemoryDevice* device) {
        return g_ep_api->MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_GPU;
      };
      return ours(from) || ours(to);
    };
    CopyTensors = [](OrtDataTransferImpl*, const OrtValue** from, OrtValue** to,
                     OrtSyncStream** streams, size_t count) -> OrtStatus* {
      g_transfers += static_cast<int64_t>(count);
      for (size_t i = 0; i < count; ++i) {
        size_t bytes = 0;
        const void* source = nullptr;
        void* target = nullptr;
        RETURN_IF_ERROR(g_api->GetTensorSizeInBytes(from[i], &bytes));
        RETURN_IF_ERROR(g_api->GetTensorData(from[i], &source));
        RETURN_IF_ERROR(g_api->GetTensorMutableData(to[i], &target));
        OrtSyncStream* stream = streams != nullptr ? streams[i] : nullptr;
        void* handle = stream != nullptr ? g_api->SyncStream_GetHandle(stream) : nullptr;
        RETURN_IF_ERROR(Check(g_runtime.MemcpyAsync(target, source, bytes, kAnyDirection, handle),
                              "MemcpyAsync"));
        if (stream == nullptr) {
          RETURN_IF_ERROR(Check(g_runtime.StreamSynchronize(nullptr), "StreamSynchronize"));
        }
      }
      return nullptr;
    };
  }
};

struct Flatten : OrtKernelImpl {
  Flatten() : OrtKernelImpl{} {
    ort_version_supported = g_version;
    Release = [](OrtKernelImpl* self) { delete static_cast<Flatten*>(self); };
    Compute = [](OrtKernelImpl*, OrtKernelContext* context) -> OrtStatus* {
      const OrtValue* input = nullptr;
      RETURN_IF_ERROR(g_api->KernelContext_GetInput(context, 0, &input));
      ONNXTensorElementDataType type{};
      const int64_t* dims = nullptr;
      size_t rank = 0;
      RETURN_IF_ERROR(g_api->GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
      std::array<int64_t, 2> flat = {rank > 0 ? dims[0] : 1, 1};
      for (size_t i = 1; i < rank; ++i) flat[1] *= dims[i];
      OrtValue* output = nullptr;
      RETURN_IF_ERROR(
          g_api->KernelContext_GetOutput(context, 0, flat.data(), flat.size(), &output));
      size_t bytes = 0;
      const void* source = nullptr;
      void* target = nullptr;
      void* stream = nullptr;
      RETURN_IF_ERROR(g_api->GetTensorSizeInBytes(output, &bytes));
      RETURN_IF_ERROR(g_api->GetTensorData(input, &source));
      RETURN_IF_ERROR(g_api->GetTensorMutableData(output, &target));
      RETURN_IF_ERROR(g_api->KernelContext_GetGPUComputeStream(context, &stream));
      if (stream == nullptr) return g_api->CreateStatus(ORT_FAIL, "there is no stream");
      ++g_kernels;
      return Check(g_runtime.MemcpyAsync(target, source, bytes, kAnyDirection, stream),
                   "MemcpyAsync");
    };
  }
};

OrtKernelRegistry* MakeRegistry() {
  OrtKernelRegistry* registry = nullptr;
  OrtKernelDefBuilder* builder = nullptr;
  OrtKernelDef* definition = nullptr;
  const OrtDataType* type = nullptr;
  OrtStatus* status = g_ep_api->CreateKernelRegistry(&registry);
  const auto then = [&status](OrtStatus* next) {
    if (status == nullptr) status = next;
  };
  then(g_ep_api->CreateKernelDefBuilder(&builder));
  then(g_ep_api->GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &type));
  then(g_ep_api->KernelDefBuilder_SetOperatorType(builder, "Flatten"));
  then(g_ep_api->KernelDefBuilder_SetDomain(builder, ""));
  then(g_ep_api->KernelDefBuilder_SetSinceVersion(builder, 1, 1000));
  then(g_ep_api->KernelDefBuilder_SetExecutionProvider(builder, kName));
  then(g_ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", &type, 1));
  then(g_ep_api->KernelDefBuilder_Build(builder, &definition));
  then(g_ep_api->KernelRegistry_AddKernel(
      registry, definition,
      [](void*, const OrtKernelInfo*, OrtKernelImpl** kernel) -> OrtStatus* {
        *kernel = new Flatten;
        return nullptr;
      },
      nullptr));
  g_ep_api->ReleaseKernelDef(definition);
  g_ep_api->ReleaseKernelDefBuilder(builder);
  return status == nullptr ? registry : nullptr;
}

struct Provider : OrtEp {
  Provider() : OrtEp{} {
    ort_version_supported = g_version;
    GetName = [](const OrtEp*) { return kName; };
    GetCapability = [](OrtEp*, const OrtGraph* graph,
                       OrtEpGraphSupportInfo* support) -> OrtStatus* {
      size_t count = 0;
      RETURN_IF_ERROR(g_api->Graph_GetNumNodes(graph, &count));
      std::vector<const OrtNode*> nodes(count);
      RETURN_IF_ERROR(g_api->Graph_GetNodes(graph, nodes.data(), count));
      for (const OrtNode* node : nodes) {
        const char* op = nullptr;
        RETURN_IF_ERROR(g_api->Node_GetOperatorType(node, &op));
        if (std::string_view(op) == "Flatten") {
          RETURN_IF_ERROR(g_ep_api->EpGraphSupportInfo_AddSingleNode(support, node));
        }
      }
      return nullptr;
    };
    GetKernelRegistry = [](OrtEp*, const OrtKernelRegistry** out) -> OrtStatus* {
      static const OrtKernelRegistry* registry = MakeRegistry();
      *out = registry;
      return nullptr;
    };
    IsConcurrentRunSupported = [](OrtEp*, bool* supported) -> OrtStatus* {
      *supported = true;
      return nullptr;
    };
  }
};

struct Factory : OrtEpFactory {
  Factory() : OrtEpFactory{} {
    ort_version_supported = g_version;
    GetName = [](const OrtEpFactory*) { return kName; };
    GetVendor = [](const OrtEpFactory*) { return "tests"; };
    GetVendorId = [](const OrtEpFactory*) { return g_runtime.vendor(); };
    GetVersion = [](const OrtEpFactory*) { return "1.0.0"; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const*, size_t,
                             OrtEpDevice** devices, size_t, size_t* count) -> OrtStatus* {
      OrtHardwareDevice* hardware = nullptr;  // as long as the process lives
      RETURN_IF_ERROR(g_ep_api->CreateHardwareDevice(OrtHardwareDeviceType_GPU, g_runtime.vendor(),
                                                     0, "tests", nullptr, &hardware));
      RETURN_IF_ERROR(g_ep_api->CreateEpDevice(self, hardware, nullptr, nullptr, &devices[0]));
      *count = 1;
      return g_ep_api->EpDevice_AddAllocatorInfo(devices[0], g_memory);
    };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                  size_t, const OrtSessionOptions*, const OrtLogger*, OrtEp** ep) -> OrtStatus* {
      *ep = new Provider;
      return nullptr;
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* ep) { delete static_cast<Provider*>(ep); };
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** out) -> OrtStatus* {
      *out = new Allocator;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) {
      delete static_cast<Allocator*>(allocator);
    };
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** out) -> OrtStatus* {
      *out = new Transfer;
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) { return true; };
    CreateSyncStreamForDevice = [](OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                   OrtSyncStreamImpl** out) -> OrtStatus* {
      *out = new Stream;
      return nullptr;
    };
  }
};

}  // namespace

OTHER_EXPORT OrtStatus* CreateEpFactories(const char* /*name*/, const OrtApiBase* base,
                                          const OrtLogger* /*logger*/, OrtEpFactory** factories,
                                          size_t /*most*/, size_t* count) {
  const std::string version = base->GetVersionString();  // "1.32.0"
  g_version = std::min<uint32_t>(
      static_cast<uint32_t>(std::strtoul(version.c_str() + 2, nullptr, 10)), kOrtBuiltApiVersion);
  g_api = base->GetApi(g_version);
  g_ep_api = g_api->GetEpApi();
  if (!g_runtime.Load()) return g_api->CreateStatus(ORT_FAIL, "OTHER_GPU_RUNTIME is no runtime");
  RETURN_IF_ERROR(g_api->CreateMemoryInfo_V2("Other", OrtMemoryInfoDeviceType_GPU,
                                             g_runtime.vendor(), 0, OrtDeviceMemoryType_DEFAULT, 0,
                                             OrtDeviceAllocator, &g_memory));
  static Factory factory;
  factories[0] = &factory;
  *count = 1;
  return nullptr;
}

OTHER_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* /*factory*/) { return nullptr; }

OTHER_EXPORT int64_t other_gpu_streams() { return g_streams; }
OTHER_EXPORT void* other_gpu_one_stream() { return Stream::TheUsers(); }
OTHER_EXPORT int64_t other_gpu_kernels() { return g_kernels; }
OTHER_EXPORT int64_t other_gpu_transfers() { return g_transfers; }
