"""Plain TCP, the measure of what a network can do: tcp.py serve HOST PORT; echo|put|get HOST PORT [BYTES].

put and get print bytes a second, echo the seconds of a round trip (the second one, of an open connection)."""
import socket, sys, threading, time

PIECE = 1 << 20


def answer(conn):
    with conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = b''
        while not head.endswith(b'\n'):
            more = conn.recv(1)
            if not more:
                return
            head += more
        verb, count = head.split()
        left, piece = int(count), bytearray(PIECE)
        if verb == b'get':
            while left > 0:
                left -= conn.send(memoryview(piece)[:min(left, PIECE)])
        elif verb == b'put':
            while left > 0:
                n = conn.recv_into(piece)
                if n == 0:
                    return
                left -= n
            conn.sendall(b'!')
        else:
            while True:
                byte = conn.recv(1)
                if not byte:
                    return
                conn.sendall(byte)


def main():
    verb, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if verb == 'serve':
        listener = socket.create_server((host, port))
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=answer, args=(conn,), daemon=True).start()
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    conn = socket.create_connection((host, port))
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conn.sendall(b'%s %d\n' % (verb.encode(), count))
    piece, left, begin = bytearray(PIECE), count, time.monotonic()
    if verb == 'put':
        while left > 0:
            left -= conn.send(memoryview(piece)[:min(left, PIECE)])
        conn.recv(1)
    elif verb == 'get':
        while left > 0:
            left -= conn.recv_into(piece)
    else:
        for _ in range(2):
            begin = time.monotonic()
            conn.sendall(b'x')
            conn.recv(1)
        print('%.4f' % (time.monotonic() - begin))
        return
    print('%.0f' % (count / (time.monotonic() - begin)))


main()
