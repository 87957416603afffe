/* The edge between the hethub program and a transport in a shared object of its own: a file
 * transport-NAME.so that exports one function, hethub_transport(), which returns its table. Only C
 * types cross: no exception, no library type, no allocation that the other side frees.
 *
 * An end is an ordered stream of bytes to and from one peer, as hethub/comm/wire.h describes it.
 * No function blocks, but `close` for at most a second. One thread at a time calls the functions of
 * one end; several threads may call those of different ends at once.
 */
#ifndef HETHUB_COMM_PLUGIN_TRANSPORT_PLUGIN_H
#define HETHUB_COMM_PLUGIN_TRANSPORT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of what follows. A program loads plug-ins of its own version only. */
#define HETHUB_TRANSPORT_VERSION 1u

/* Why a function did not do it, in a sentence ended by 0. */
typedef struct HethubTransportError {
  char why[512];
} HethubTransportError;

typedef struct HethubTransportEnd HethubTransportEnd;

typedef struct HethubTransport {
  uint32_t version; /* HETHUB_TRANSPORT_VERSION */
  uint32_t bytes;   /* sizeof(HethubTransport) */
  const char* name; /* NAME */

  /* A new end that leads nowhere yet; null, and `error`, if it cannot be made. */
  HethubTransportEnd* (*open)(HethubTransportError* error);

  /* Where the peer's end reaches this one. Stays until the end is closed. */
  const void* (*address)(HethubTransportEnd* end, uint64_t* bytes);

  /* Leads to the end of this address; 0 if it does, otherwise `error`. Once. */
  int32_t (*connect)(HethubTransportEnd* end, const void* address, uint64_t bytes,
                     HethubTransportError* error);

  /* Takes as much as there is room for, `first` before `second`; keeps a copy. The bytes taken. */
  uint64_t (*write)(HethubTransportEnd* end, const void* first, uint64_t first_bytes,
                    const void* second, uint64_t second_bytes);

  /* Gives what has arrived, at most `bytes`; the bytes given. */
  uint64_t (*read)(HethubTransportEnd* end, void* to, uint64_t bytes);

  /* A descriptor that poll() reports when something happens after `arm` has returned 1. */
  int32_t (*descriptor)(HethubTransportEnd* end);

  /* 1: the descriptor will tell. 0: something has come; read and write again, then arm again. */
  int32_t (*arm)(HethubTransportEnd* end);

  /* Empty while the peer may still send; afterwards why not. What had arrived can be read. */
  const char* (*failure)(HethubTransportEnd* end);

  /* Sends what was taken, for at most a second, and frees the end. */
  void (*close)(HethubTransportEnd* end);
} HethubTransport;

/* The table of this plug-in; it and all in it stay as long as the program. */
const HethubTransport* hethub_transport(void);

#ifdef __cplusplus
}
#endif

#endif
