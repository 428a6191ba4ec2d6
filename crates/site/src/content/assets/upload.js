{const form=one(".upload"),queue=one("#queue"),makesFolders=!!one("[action='?mkdir']"),tasks=[];
const BUSY_MAX=30,LOST_MAX=5,PROBED=1<<20;
const text=bytes=>{let unit=0;while(bytes>=1000&&unit<4){bytes/=1024;unit++}return bytes.toFixed(unit?1:0)+" "+["B","KiB","MiB","GiB","TiB"][unit]};
const wait=ms=>new Promise(done=>setTimeout(done,ms));
const key=task=>"upload "+new URL(task.address,location).pathname;
const mark=task=>task.file.size+" "+task.file.lastModified;
const store=(task,value)=>{try{value?localStorage.setItem(key(task),value):localStorage.removeItem(key(task))}catch{}};
const isKept=task=>{try{return localStorage.getItem(key(task))===mark(task)}catch{return false}};
function draw(task){
const{state,file,sent,line}=task,is=(...states)=>states.includes(state);
line.progress.value=file.size?sent/file.size:+is("done");
line.progress.hidden=is("done","failed","exists");
line.state.textContent=is("sending")?Math.floor(100*line.progress.value)+" % of "+text(file.size)+(task.rate?", "+text(task.rate)+"/s":""):is("waiting")?"Waiting":is("paused")?task.why||"Paused":is("done")?"Uploaded":is("exists")?"There is a file of this name.":task.why;
line.state.className=is("failed")?"bad":"";
line.pause.hidden=!is("sending","waiting","paused")||task.whole&&is("sending");
line.pause.textContent=is("paused")?"Resume":"Pause";
line.replace.hidden=!is("exists");
line.again.hidden=!is("failed");
line.drop.textContent=is("done","failed")?"Dismiss":is("exists")?"Skip":"Cancel"}
function add(file,folder){
const item=document.createElement("li"),make=(tag,label)=>{const element=document.createElement(tag);if(label)element.textContent=label;item.append(element);return element};
const task={file,address:folder+encodeURIComponent(file.name),state:"waiting",sent:0,rate:0,whole:!file.size,replaces:false,lost:0,why:""};
make("bdi",decodeURIComponent(folder.slice(2))+file.name);
task.line={progress:make("progress"),state:make("span"),pause:make("button"),replace:make("button","Replace"),again:make("button","Try again"),drop:make("button")};
task.line.progress.setAttribute("aria-label",file.name);
const set=state=>{task.state=state;draw(task);next()};
task.line.pause.onclick=()=>{task.why="";task.lost=0;const state=task.state==="paused"?"waiting":"paused";task.state=state;task.request?.abort();set(state)};
task.line.replace.onclick=()=>{task.replaces=true;set("waiting")};
task.line.again.onclick=()=>set("waiting");
task.line.drop.onclick=()=>{task.state="gone";task.request?.abort();item.remove();tasks.splice(tasks.indexOf(task),1);next()};
tasks.push(task);queue.append(item);draw(task)}
function put(task,range,content){return new Promise(done=>{
const request=task.request=new XMLHttpRequest,from=task.sent;
let then=performance.now(),before=from;
request.open("PUT",task.address);
request.setRequestHeader("Accept","application/json");
if(range)request.setRequestHeader("Content-Range",range);
if(!task.replaces)request.setRequestHeader("If-None-Match","*");
request.upload.onprogress=({loaded})=>{if(!content)return;task.sent=Math.min(from+loaded,task.file.size);const now=performance.now();if(now-then>500){task.rate=1000*(task.sent-before)/(now-then);then=now;before=task.sent}draw(task)};
request.onloadend=()=>{task.request=null;done(request)};
request.send(content)})}
const arrived=answer=>{const range=/^bytes=0-(\d+)$/.exec(answer.getResponseHeader("Range")||"");return range?+range[1]+1:0};
const cause=answer=>{try{return JSON.parse(answer.responseText).detail}catch{return answer.status?"The server answers "+answer.status+".":"The connection is lost."}};
async function send(task){
const{file}=task,size=file.size,is=state=>task.state===state;
let kept=!task.whole&&isKept(task),busy=0;
task.sent=0;task.state="sending";draw(task);
if(!task.whole&&(kept||size>PROBED)){const answer=await put(task,"bytes */"+size,null);if(!is("sending"))return;
if(answer.status===308)task.sent=kept?arrived(answer):0;
else if([400,507].includes(answer.status))task.whole=true}
while(is("sending")){
if(!task.whole)store(task,mark(task));
const answer=await put(task,task.whole?null:`bytes ${task.sent}-${size-1}/${size}`,task.whole?file:file.slice(task.sent)),status=answer.status;
if(!is("sending"))return;
if(status===201||status===204){task.sent=size;store(task,null);task.state="done"}
else if(status===308||status===409&&answer.getResponseHeader("Range"))task.sent=arrived(answer);
else if(status===409&&answer.getResponseHeader("Retry-After")&&busy++<BUSY_MAX)await wait(1000);
else if(!task.whole&&[400,507].includes(status)){task.whole=true;task.sent=0}
else if(status===412)task.state="exists";
else if(!status&&!task.whole&&task.lost++<LOST_MAX){task.state="paused";task.why="The connection is lost. It goes on by itself.";draw(task);await wait(1000*task.lost);if(is("paused"))task.state="waiting";break}
else{task.state="failed";task.why=cause(answer)}}
draw(task)}
let isAtWork=false;
async function next(){
if(isAtWork)return;
isAtWork=true;
let stored=false;
for(let task;task=tasks.find(({state})=>state==="waiting");){await send(task);if(task.state==="done"){stored=true;task.lost=0}}
isAtWork=false;
if(stored)refresh()}
async function refresh(){
const answer=await fetch(location.href,{headers:{Accept:"text/html"}}).catch(()=>null);
if(!answer?.ok||one("details[open]"))return;
const page=new DOMParser().parseFromString(await answer.text(),"text/html");
for(const part of["#entries","#summary"])one(part)?.replaceWith(page.querySelector(part));
index();if(box.value)box.dispatchEvent(new Event("input"))}
async function walk(entry,folder){
if(entry instanceof File)return add(entry,folder);
if(entry.isFile)return add(await new Promise((done,failed)=>entry.file(done,failed)),folder);
if(!makesFolders)return;
const inner=folder+encodeURIComponent(entry.name)+"/",reader=entry.createReader();
await fetch(inner,{method:"MKCOL"});
for(;;){const entries=await new Promise((done,failed)=>reader.readEntries(done,failed));if(!entries.length)return;for(const one of entries)await walk(one,inner)}}
form.querySelector("input").addEventListener("change",({target})=>{for(const file of target.files)add(file,"./");form.reset();next()});
form.insertAdjacentHTML("beforeend",'<span class="hint">or drop files anywhere on this page</span>');
const brings=event=>event.dataTransfer?.types.includes("Files");
addEventListener("dragover",event=>{if(brings(event)){event.preventDefault();document.body.classList.add("drop")}});
addEventListener("dragleave",({relatedTarget})=>{if(!relatedTarget)document.body.classList.remove("drop")});
addEventListener("drop",async event=>{if(!brings(event))return;event.preventDefault();document.body.classList.remove("drop");for(const entry of[...event.dataTransfer.items].map(item=>item.webkitGetAsEntry?.()||item.getAsFile()).filter(Boolean))await walk(entry,"./").catch(()=>{});next()});
addEventListener("beforeunload",event=>{if(tasks.some(({state})=>state==="sending"||state==="waiting"))event.preventDefault()})}
