/* The edge between the hethub program and a plug-in: a backend in a shared object of its own.
 *
 * A plug-in is a file hethub-NAME.so that exports one function, hethub_plugin(), which returns its
 * table. Only C types cross: no exception, no library type, no allocation that the other side
 * frees. So a plug-in may be built by another compiler and against other libraries.
 *
 * Each function does what the method of its name in hethub/accel/backend.h does, and may be called
 * by the same threads. Those that return int32_t return 0 if they did it; otherwise they filled
 * `error`. Nothing is kept of what a call points to, but the memory of upload() and download().
 */
#ifndef HETHUB_ACCEL_PLUGIN_PLUGIN_H
#define HETHUB_ACCEL_PLUGIN_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of what follows. A program loads plug-ins of its own version only. */
#define HETHUB_PLUGIN_VERSION 1u

/* What failed: the parts of hethub/base/error.h, ended by 0, cut where they are too long. */
typedef struct HethubError {
  char code[32]; /* as name_of(ErrorCode) spells it, e.g. "out_of_memory" */
  char what[512];
  char found[1024];
  char expected[512];
  char fix[512];
} HethubError;

/* One op. `sizes` and `value` are the fields of its struct in hethub/op/op.h, in their order:
 * integers, flags (0 or 1) and enums in `sizes`, its floating-point number in `value`. */
typedef struct HethubOp {
  const char* name;
  const char* kind;  /* as facts_of() spells it, e.g. "linear" */
  const char* dtype; /* e.g. "f32" */
  int64_t sizes[8];
  double value;
} HethubOp;

typedef struct HethubBackend HethubBackend;
typedef struct HethubBuffer HethubBuffer;
typedef struct HethubQueue HethubQueue;
typedef struct HethubEvent HethubEvent;
typedef struct HethubPreparedOp HethubPreparedOp;

/* Bytes [offset, offset + bytes) of a buffer. */
typedef struct HethubView {
  HethubBuffer* buffer; /* null only where bytes is 0 */
  int64_t offset;
  int64_t bytes;
} HethubView;

/* How a device is opened: BackendOptions of hethub/accel/registry.h. */
typedef struct HethubOptions {
  const char* device_type;
  int32_t device;
  int32_t threads;
  const int32_t* cores;
  int32_t core_count;
} HethubOptions;

/* DeviceInfo and, in a list of what is here, the rest of FoundDevice. */
typedef struct HethubDevice {
  char backend[64];
  char kind[64];
  char name[256];
  char driver[256];
  int64_t memory_bytes;
  int32_t device;
  char problem[1024];
} HethubDevice;

typedef struct HethubPlugin {
  uint32_t version; /* HETHUB_PLUGIN_VERSION */
  uint32_t bytes;   /* sizeof(HethubPlugin) */
  const char* name; /* the NAME of hethub-NAME.so */

  /* Fills the list's line number `line`, counted from 0; `found` says whether there is one. */
  int32_t (*find)(int32_t line, HethubDevice* device, int32_t* found, HethubError* error);
  int32_t (*open)(const HethubOptions* options, HethubBackend** backend, HethubError* error);
  void (*close)(HethubBackend* backend);

  int32_t (*info)(HethubBackend* backend, HethubDevice* device, HethubError* error);
  /* `host` gets the address if the CPU may dereference it at any time, else null. */
  int32_t (*allocate)(HethubBackend* backend, int64_t bytes, HethubBuffer** buffer, void** host,
                      HethubError* error);
  void (*free_buffer)(HethubBuffer* buffer);
  int32_t (*make_queue)(HethubBackend* backend, HethubQueue** queue, HethubError* error);
  void (*free_queue)(HethubQueue* queue);
  int32_t (*make_event)(HethubBackend* backend, HethubEvent** event, HethubError* error);
  void (*free_event)(HethubEvent* event);
  int32_t (*prepare)(HethubBackend* backend, const HethubOp* op, HethubPreparedOp** prepared,
                     HethubError* error);
  void (*free_op)(HethubPreparedOp* prepared);

  int32_t (*run)(HethubQueue* queue, HethubPreparedOp* op, const HethubView* inputs,
                 int32_t input_count, const HethubView* outputs, int32_t output_count,
                 const HethubView* workspace, HethubError* error);
  int32_t (*copy)(HethubQueue* queue, const HethubView* from, const HethubView* to,
                  HethubError* error);
  int32_t (*upload)(HethubQueue* queue, const void* from, const HethubView* to, HethubError* error);
  int32_t (*download)(HethubQueue* queue, const HethubView* from, void* to, HethubError* error);
  int32_t (*record)(HethubQueue* queue, HethubEvent* event, HethubError* error);
  /* `seconds` is the time left to the deadline. */
  int32_t (*synchronize)(HethubQueue* queue, double seconds, HethubError* error);
  int32_t (*done)(HethubEvent* event, int32_t* done, HethubError* error);
  int32_t (*wait)(HethubEvent* event, double seconds, HethubError* error);
} HethubPlugin;

/* The one symbol of a plug-in. The table lives as long as the shared object. */
const HethubPlugin* hethub_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
