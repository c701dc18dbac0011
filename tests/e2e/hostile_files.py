"""Files that try to act as the user who opens them."""

import base64
import gzip

ATTACK = """
fetch("/api/threads", {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({thread_id: "pwned-by-NAME"})});
fetch("/api/threads/t", {method: "DELETE"});
let loot = "";
try { loot += localStorage.getItem("secret") + document.cookie; } catch (e) {}
try { loot += parent.localStorage.getItem("secret"); } catch (e) {}
try { loot += opener.localStorage.getItem("secret"); } catch (e) {}
new Image().src = "/api/pwned/NAME?" + encodeURIComponent(loot);
try { navigator.sendBeacon("/api/pwned/NAME", loot); } catch (e) {}
try { navigator.serviceWorker.register("/api/threads/t/artifacts/mnt/user-data/outputs/worker.js"); } catch (e) {}
try { new Worker("/api/threads/t/artifacts/mnt/user-data/outputs/worker.js"); } catch (e) {}
try { window.open("/api/pwned/NAME/opened"); top.location = "/api/pwned/NAME/top"; } catch (e) {}
"""
FORM = (
    '<form id=f method=post action="/api/pwned/NAME/form"></form><script>f.submit()</script>'
    '<meta http-equiv=refresh content="0;url=/api/pwned/NAME/refresh"><base href="/api/pwned/NAME/base/"><img src=x>'
    '<link rel=stylesheet href="/api/pwned/NAME/css"><iframe src="/api/pwned/NAME/frame"></iframe>'
    '<object data="/api/pwned/NAME/object"></object><img src="/api/pwned/NAME/img" onerror="ATTACK">'
)
PNG = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def hostile_files() -> dict[str, bytes]:
    """Return names and contents; each attack sends requests with the name of its file."""
    return {name: insert_attack(name, content) for name, content in TEMPLATES.items()} | {
        "drawing.svgz": gzip.compress(insert_attack("drawing.svgz", SVG)),
        "utf7.txt": f"+ADw-script+AD4-{ATTACK.replace('NAME', 'utf7.txt')}+ADw-/script+AD4-".encode(),
        "utf16.txt": insert_attack("utf16.txt", HTML).decode().encode("utf-16"),
    }


def insert_attack(name: str, content: bytes) -> bytes:
    """Replace the placeholders in the content."""
    return content.replace(b"SCRIPT", ATTACK.encode()).replace(b"NAME", name.encode())


HTML = b"<!doctype html><html><head></head><body><script>SCRIPT</script>" + FORM.encode() + b"</body></html>"
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="fetch(\'/api/pwned/NAME/onload\')">'
    b"<script><![CDATA[SCRIPT]]></script>"
    b'<image href="/api/pwned/NAME/image"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" '
    b'src="/api/pwned/NAME/frame"/></foreignObject></svg>'
)
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.launchURL('/api/pwned/NAME'))>>>>"
    b"endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/AA<</O<</S/SubmitForm"
    b"/F(/api/pwned/NAME/form)>>>>>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)
TEMPLATES = {
    "page.html": HTML,
    "page.HTM": HTML,
    "page.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><body><script>//<![CDATA[\nSCRIPT//]]></script></body></html>',
    "page.shtml": HTML,
    "page": HTML,
    "page.html.txt": HTML,
    "sniffed.txt": b" \n\n" + HTML,
    "data.json": b'{"a": "<script>SCRIPT</script>"}',
    "drawing.svg": SVG,
    "drawing.svg.png": SVG,
    "feed.xml": b'<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="style.xsl"?><a>x</a>',
    "style.xsl": b'<?xml version="1.0"?><xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">'
    b'<xsl:template match="/"><html><body><script>SCRIPT</script></body></html></xsl:template></xsl:stylesheet>',
    "feed.rdf": b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><script>SCRIPT</script></html>',
    "report.pdf": PDF,
    "page.mhtml": b"MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b; type=text/html\r\n\r\n--b\r\n"
    b"Content-Type: text/html\r\n\r\n" + HTML + b"\r\n--b--\r\n",
    "polyglot.gif": b"GIF89a/*\x01\x00\x80\x00\x00*/=1;SCRIPT",
    "fake.png": b"\x89PNG\r\n\x1a\n" + HTML,
    "real.png": PNG + HTML,
    "photo.jpg": b"\xff\xd8\xff\xe0" + HTML,
    "photo.jpeg": HTML,
    "small.webp": b"RIFF\x00\x10\x00\x00WEBPVP8 " + HTML,
    "script.js": b"SCRIPT",
    "worker.js": b"self.addEventListener('fetch', () => {});\nfetch('/api/pwned/NAME/worker');\nSCRIPT",
    "module.mjs": b"SCRIPT\nexport default 1;",
    "style.css": b"@import '/api/pwned/NAME/import'; body { background: url(/api/pwned/NAME/url) }",
    "movie.swf": b"FWS\x09\x00\x00\x00\x00" + HTML,
    "app.webmanifest": b'{"name": "x", "start_url": "/api/pwned/NAME", "icons": [{"src": "/api/pwned/NAME/icon"}]}',
    ".htaccess": b"AddType text/html .txt\nHeader set X-Pwned 1\n",
    "program.hta": HTML,
    "link.url": b"[InternetShortcut]\r\nURL=/api/pwned/NAME\r\n",
    "play.m3u8": b"#EXTM3U\n#EXTINF:1,\n/api/pwned/NAME\n",
    "captions.vtt": b"WEBVTT\n\n00:00.000 --> 00:09.000\n<script>SCRIPT</script>\n",
}
