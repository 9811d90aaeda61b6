# SPDX-License-Identifier: BSD-2-Clause
"""A page in a real browser: chromium without a window, driven through its DevTools pipe (file descriptors 3 and 4,
JSON messages that end in a zero byte). Mouse events are the browser's own, not calls of handlers."""
import fcntl
import json
import os
import select
import shutil
import subprocess

HANG = 120  # seconds without a word from the browser
FLAGS = ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic', '--no-first-run',
         '--disable-background-networking', '--disable-component-update', '--disable-sync', '--window-size=1200,1000',
         '--host-resolver-rules=MAP * ~NOTFOUND', '--remote-debugging-pipe')


def find():
    return shutil.which('chromium') or shutil.which('chromium-browser')


class Page:
    """One tab. The directory is for the browser's profile and is empty."""

    def __init__(self, directory):
        pipes = [*os.pipe(), *os.pipe()]
        # Above 9, so that none is 3 or 4.
        ours_in, theirs_out, theirs_in, ours_out = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in pipes)
        for fd in pipes:
            os.close(fd)
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ['bash', '-c', shell, 'bash', find(), *FLAGS, f'--user-data-dir={directory}/profile'],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, 'HOME': directory})
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output, self.buffer = ours_in, ours_out, b''
        self.last, self.session = 0, None
        self.events = []  # (method, parameters)
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(domain + '.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.output)  # chromium ends when its pipe does
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.input)

    def receive(self):
        while b'\0' not in self.buffer:
            if not select.select([self.input], [], [], HANG)[0]:
                raise RuntimeError('the browser does not answer')
            data = os.read(self.input, 1 << 16)
            if not data:
                raise RuntimeError(f'the browser ended with {self.process.wait()}')
            self.buffer += data
        message, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {'id': self.last, 'method': method, 'params': parameters}
        if self.session is not None:
            message['sessionId'] = self.session
        os.write(self.output, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.receive()
            if answer.get('id') == self.last:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']
            self.events.append((answer.get('method'), answer.get('params', {})))

    def open(self, url):
        self.events.clear()
        self.call('Page.navigate', url=url)
        while not any(method == 'Page.loadEventFired' for method, _ in self.events):
            message = self.receive()
            self.events.append((message.get('method'), message.get('params', {})))

    def js(self, expression):
        """The value of an expression, after what it promises."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def place(self, selector, x=0.5, y=0.5):
        """A point of an element in the window, scrolled into view; x and y are shares of its size."""
        return self.js(f'''(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
            return [r.x + r.width * {x}, r.y + r.height * {y}]; }})()''')

    def mouse(self, kind, place, **more):
        self.call('Input.dispatchMouseEvent', type=kind, x=place[0], y=place[1], **more)

    def click(self, selector, times=1, **where):
        place = self.place(selector, **where)
        self.mouse('mouseMoved', place)
        for n in range(1, times + 1):
            self.mouse('mousePressed', place, button='left', buttons=1, clickCount=n)
            self.mouse('mouseReleased', place, button='left', clickCount=n)

    def wheel(self, selector, by, **where):
        self.mouse('mouseWheel', self.place(selector, **where), deltaX=0, deltaY=by)
        self.settle()

    def drag(self, selector, start, end):
        places = [self.place(selector, *start), self.place(selector, *end)]
        self.mouse('mouseMoved', places[0])
        self.mouse('mousePressed', places[0], button='left', buttons=1, clickCount=1)
        for step in range(1, 5):
            self.mouse('mouseMoved', [a + (b - a) * step / 4 for a, b in zip(*places)], button='left', buttons=1)
        self.mouse('mouseReleased', places[1], button='left', clickCount=1)
        self.settle()

    def key(self, key):
        """A key is pressed. Keys of one character make it."""
        text = {'text': key} if len(key) == 1 else {'text': '\r'} if key == 'Enter' else {}
        self.call('Input.dispatchKeyEvent', type='keyDown', key=key, **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key)
        self.settle()

    def type(self, text):
        for key in text:
            self.key(key)

    def settle(self):
        """Until two frames have been drawn."""
        self.js('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))')

    def complaints(self):
        """The page's network requests, and errors of its scripts."""
        asked = [p['request']['url'] for m, p in self.events if m == 'Network.requestWillBeSent']
        wrong = [str(p) for m, p in self.events if m == 'Runtime.exceptionThrown'
                 or (m == 'Log.entryAdded' and p['entry']['level'] == 'error')]
        return asked[1:], wrong
